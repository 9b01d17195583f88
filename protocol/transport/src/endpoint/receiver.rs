//! A thread that only receives: it reads packets, finds out whose they are, and decides who may come
//! in.
//!
//! Where many handshakes are under way, whatever is received waits behind all of them, if it is
//! received by the same threads: the library reads for 50 us and then lets every task that is ready
//! go first, of which each may take a millisecond of cryptography. Packets are lost then, peers that
//! hear nothing send more of them, and heartbeats are late. A thread of its own is given the
//! processor as soon as a packet is there, since it needs little of it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::turns::take_short_turns;

/// QUIC's runtime with such a thread. Connections are driven by the runtime that this is made in.
#[derive(Debug)]
pub(super) struct Receiver {
    thread: Handle,
    connections: Handle,
    /// Whether the driver of the endpoint runs: the library spawns it first.
    begun: AtomicBool,
    /// Ends the thread when this is dropped.
    _until: oneshot::Sender<()>,
}

impl Receiver {
    pub(super) fn start(connections: Handle) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = runtime.handle().clone();
        let (until, ended) = oneshot::channel::<()>();
        let receive = move || {
            take_short_turns();
            // However it ends, nobody is left who receives.
            let _ = runtime.block_on(ended);
        };
        let named = std::thread::Builder::new().name("quic-receive".to_owned());
        named.spawn(receive)?;
        Ok(Self {
            thread,
            connections,
            begun: AtomicBool::new(false),
            _until: until,
        })
    }

    /// Where its tasks are spawned.
    pub(super) fn thread(&self) -> &Handle {
        &self.thread
    }
}

impl Runtime for Receiver {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let is_connection = self.begun.swap(true, Ordering::Relaxed);
        let home = if is_connection {
            &self.connections
        } else {
            &self.thread
        };
        home.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let _inside = self.thread.enter();
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}
