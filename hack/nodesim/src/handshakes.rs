//! Bare QUIC handshakes with the same servers, from the same sockets, with the same certificates:
//! what physics and TLS need of every reconnect, and the floor beside a storm of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use protocol_transport::Endpoint;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::stats::Spread;

/// Attempts of one handshake: a server with too many under way refuses some.
const ATTEMPTS_MAX: usize = 100;
/// Between two of them.
const AGAIN: Duration = Duration::from_millis(20);

/// What handshakes took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Handshakes {
    /// How many.
    pub count: u32,
    /// From the first packet of the first to the end of the last.
    pub took_ms: f64,
    /// Each.
    pub each_ms: Spread,
    /// Attempts that were refused or ran out of time.
    pub failed: usize,
}

/// Makes `count` connections, at most `at_once` under way, each closed as soon as it stands.
///
/// # Errors
/// When a server has no address, or one handshake fails again and again.
pub async fn run(
    endpoints: &[Endpoint],
    servers: &[String],
    count: u32,
    at_once: u32,
) -> anyhow::Result<Handshakes> {
    let mut addresses = Vec::new();
    for server in servers {
        let found = tokio::net::lookup_host(server).await;
        let mut found = found.with_context(|| format!("find {server}"))?;
        addresses.push(found.next().with_context(|| format!("find {server}"))?);
    }
    let slots = Arc::new(Semaphore::new(usize::try_from(at_once)?.max(1)));
    let begun = Instant::now();
    let mut under_way = JoinSet::new();
    for number in 0..count {
        let number = usize::try_from(number)?;
        let address = addresses[number % addresses.len()];
        let endpoint = endpoints[number % endpoints.len()].clone();
        let slot = Arc::clone(&slots).acquire_owned().await?;
        under_way.spawn(async move {
            let _slot = slot;
            one(&endpoint, address).await
        });
    }
    let (mut each, mut failed) = (Vec::new(), 0);
    while let Some(done) = under_way.join_next().await {
        let (took, failures) = done??;
        each.push(took);
        failed += failures;
    }
    Ok(Handshakes {
        count,
        took_ms: begun.elapsed().as_secs_f64() * 1e3,
        each_ms: Spread::of(each.into_iter()),
        failed,
    })
}

async fn one(endpoint: &Endpoint, address: SocketAddr) -> anyhow::Result<(Duration, usize)> {
    // As a daemon that was started again: no server has given it a ticket.
    let endpoint = endpoint.stranger();
    let begun = Instant::now();
    let mut attempt = 0;
    loop {
        match endpoint.connect(address).await {
            Ok(connection) => {
                let took = begun.elapsed();
                connection.close(0_u32.into(), b"only a handshake");
                return Ok((took, attempt));
            }
            Err(error) if attempt == ATTEMPTS_MAX => {
                return Err(error).context("a handshake failed again and again");
            }
            Err(_) => {
                attempt += 1;
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
