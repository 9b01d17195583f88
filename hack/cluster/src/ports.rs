//! Ports that are free, and stay free while a server is down.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::bail;

/// Below the kernel's range for outgoing connections (32768 and up, ip(7)): there, somebody's
/// connection could take the port of a server between its end and its restart. Below the range of
/// a node's dynamic ports (20000 and up) too.
const LOWEST: u16 = 10_000;
const COUNT: u16 = 9_000;

/// The ports of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// TCP.
    pub http: u16,
    /// UDP.
    pub quic: u16,
}

impl Ports {
    /// Two ports that nobody uses now and that this process has not handed out before.
    ///
    /// # Errors
    /// When all are taken.
    pub fn free() -> anyhow::Result<Self> {
        Ok(Self {
            http: next(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())?,
            quic: next(|port| UdpSocket::bind(("127.0.0.1", port)).is_ok())?,
        })
    }
}

fn next(is_free: impl Fn(u16) -> bool) -> anyhow::Result<u16> {
    static OFFSET: AtomicU16 = AtomicU16::new(0);
    // Test processes that run at the same time begin at different places.
    let count = u32::from(COUNT);
    let begin = u16::try_from(std::process::id().wrapping_mul(97) % count).unwrap_or(0);
    for _ in 0..COUNT {
        let offset = OFFSET.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = LOWEST + begin.wrapping_add(offset) % COUNT;
        if is_free(port) {
            return Ok(port);
        }
    }
    bail!("no port from {LOWEST} on is free")
}
