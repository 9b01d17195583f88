//! The cost of a datagram as long as a heartbeat that is received and sent back, at the rate of a
//! thousand calm nodes: a UDP socket, and QUIC connections without anything above them.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use protocol_transport::ca::{CertificateAuthority, CertificateRequest};
use protocol_transport::{Endpoint, EndpointConfig, Identity, Region, Role};

/// A heartbeat's bytes.
const BYTES: usize = 24;
/// Senders.
const PEERS: usize = 1_000;
/// From one datagram of a peer to its next.
const EVERY: Duration = Duration::from_millis(500);
/// Datagrams of each peer.
const ROUNDS: u32 = 10;
/// After this time without a datagram no more come.
const SILENT_MAX: Duration = Duration::from_secs(5);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How datagrams travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// In UDP alone.
    Socket,
    /// In QUIC, each peer over a connection of its own.
    Quic,
}

/// The processor time of the side that echoes, for each datagram.
///
/// # Errors
/// If there is no socket, or a datagram is not echoed.
pub(super) fn cost(way: Way) -> anyhow::Result<Duration> {
    match way {
        Way::Socket => socket(),
        Way::Quic => quic(),
    }
}

/// Processor time of the calling thread.
fn spent() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    let micros = |time: nix::sys::time::TimeVal| {
        let micros = i128::from(time.tv_sec()) * 1_000_000 + i128::from(time.tv_usec());
        u64::try_from(micros).unwrap_or(0)
    };
    Ok(Duration::from_micros(
        micros(usage.user_time()) + micros(usage.system_time()),
    ))
}

/// The pause between two datagrams of whichever peers.
fn pause() -> anyhow::Result<Duration> {
    Ok(EVERY / u32::try_from(PEERS)?)
}

fn socket() -> anyhow::Result<Duration> {
    let echoing = UdpSocket::bind("127.0.0.1:0")?;
    echoing.set_read_timeout(Some(SILENT_MAX))?;
    let address = echoing.local_addr()?;
    let datagrams = u32::try_from(PEERS)? * ROUNDS;
    let echo = std::thread::spawn(move || echo_socket(&echoing, datagrams));
    let sending = UdpSocket::bind("127.0.0.1:0")?;
    let (begun, pause) = (Instant::now(), pause()?);
    for number in 0..datagrams {
        let due = begun + pause * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        sending.send_to(&[0; BYTES], address)?;
    }
    echo.join().ok().context("the echo panicked")?
}

/// Echoes at most so many datagrams; the processor time of each. The kernel drops some where this
/// thread is kept from running for long.
fn echo_socket(socket: &UdpSocket, datagrams: u32) -> anyhow::Result<Duration> {
    let (mut buffer, before, mut echoed) = ([0; 2 * BYTES], spent()?, 0);
    while echoed < datagrams {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => socket.send_to(&buffer[..length], from)?,
            Err(error) if error.kind() == ErrorKind::WouldBlock && echoed > 0 => break,
            Err(error) => return Err(error.into()),
        };
        echoed += 1;
    }
    Ok(spent()?.saturating_sub(before) / echoed)
}

fn quic() -> anyhow::Result<Duration> {
    let authority = CertificateAuthority::create("bench", DAY)?;
    let identities = [Role::Server, Role::Node].map(|role| {
        let request = CertificateRequest {
            role,
            region: Region::global(),
            common_name: role.to_string(),
            names: vec!["localhost".to_owned()],
            addresses: Vec::new(),
            validity: DAY,
        };
        let issued = authority.issue(&request)?;
        anyhow::Ok(Identity::from_pem(&authority.pem().certificate, &issued)?)
    });
    let [server, node] = identities;
    let (server, node) = (server?, node?);
    let (bound, at) = mpsc::sync_channel(1);
    let (end, ended) = mpsc::sync_channel(1);
    // Once all connections stand, and once all is echoed, it tells what it has spent.
    let (tell, told) = mpsc::sync_channel(1);
    let echo = std::thread::spawn(move || echo_quic(server, &bound, &ended, &tell));
    let address = at.recv().context("the echo did not begin")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let spent = runtime.block_on(send_quic(node, address, &end, &told))?;
    drop(end);
    echo.join().ok().context("the echo panicked")??;
    Ok(spent / (u32::try_from(PEERS)? * ROUNDS))
}

/// Echoes until `ended` is closed; tells what was spent for every word of it.
fn echo_quic(
    identity: Identity,
    bound: &mpsc::SyncSender<SocketAddr>,
    ended: &mpsc::Receiver<()>,
    tell: &mpsc::SyncSender<Duration>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let endpoint = Endpoint::bind(&EndpointConfig::loopback(identity))?;
        let mut listener = endpoint.listen();
        bound.send(endpoint.local_address()?)?;
        tokio::spawn(async move {
            while let Some(peer) = listener.accept().await {
                tokio::spawn(async move {
                    while let Ok(datagram) = peer.connection.read_datagram().await {
                        // Without room for it, it is as good as lost.
                        let _ = peer.connection.send_datagram(datagram);
                    }
                });
            }
        });
        loop {
            match ended.try_recv() {
                Ok(()) => tell.send(spent()?)?,
                Err(mpsc::TryRecvError::Empty) => {}
                Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}

async fn send_quic(
    identity: Identity,
    address: SocketAddr,
    ask: &mpsc::SyncSender<()>,
    told: &mpsc::Receiver<Duration>,
) -> anyhow::Result<Duration> {
    let endpoint = Endpoint::bind(&EndpointConfig::loopback(identity))?;
    let mut connections = Vec::new();
    for _ in 0..PEERS {
        connections.push(endpoint.connect(address).await?);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    ask.send(())?;
    let before = told.recv()?;
    let pause = pause()?;
    let mut echoes = tokio::task::JoinSet::new();
    for (number, connection) in (0..).zip(connections) {
        echoes.spawn(async move {
            tokio::time::sleep(pause * number).await;
            for _ in 0..ROUNDS {
                connection.send_datagram(vec![0; BYTES].into())?;
                connection.read_datagram().await?;
                tokio::time::sleep(EVERY).await;
            }
            anyhow::Ok(connection)
        });
    }
    let connections = echoes.join_all().await;
    ask.send(())?;
    let after = told.recv()?;
    // They stand until then.
    connections
        .into_iter()
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(after.saturating_sub(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_echo_a_datagram_costs_some_processor_time() {
        let each = cost(Way::Socket).unwrap();
        assert!(
            !each.is_zero() && each < Duration::from_millis(5),
            "{each:?}"
        );
    }
}
