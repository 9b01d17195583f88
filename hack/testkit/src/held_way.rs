//! A way on which a client's answer to a server's first answer can be kept back: its handshake is
//! over for the client, and not for the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::net::UdpSocket;

/// Packets of a handshake have it (RFC 9000 section 17.2).
const LONG_HEADER: u8 = 0x80;
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// A way from one client to a server, over UDP on the loopback address. It lasts as long as the
/// runtime that it was made in.
#[derive(Debug)]
pub struct HeldWay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    holds: AtomicBool,
    passed: Mutex<Vec<Vec<u8>>>,
}

impl HeldWay {
    /// A way to `server` that holds nothing yet.
    pub async fn to(server: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let far = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        far.connect(server).await.expect("an address");
        let address = near.local_addr().expect("an address");
        let shared = Arc::<Shared>::default();
        tokio::spawn(carry(near, far, Arc::clone(&shared)));
        Self { address, shared }
    }

    /// What the client takes for the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing of the client passes once the server has answered its first packets; or
    /// everything does again.
    pub fn hold(&self, hold: bool) {
        self.shared.holds.store(hold, Ordering::SeqCst);
    }

    /// What of the client has passed since then.
    pub fn passed(&self) -> Vec<Vec<u8>> {
        let passed = self.shared.passed.lock();
        passed.clone()
    }
}

async fn carry(near: UdpSocket, far: UdpSocket, shared: Arc<Shared>) {
    let (mut out, mut back) = (vec![0; DATAGRAM_BYTES_MAX], vec![0; DATAGRAM_BYTES_MAX]);
    let (mut client, mut answered) = (None, false);
    loop {
        tokio::select! {
            // What the client sent in one go goes on in one go.
            biased;
            read = near.recv_from(&mut out) => {
                let (bytes, from) = read.expect("a datagram");
                client = Some(from);
                let holds = shared.holds.load(Ordering::SeqCst);
                if holds && answered {
                    continue;
                }
                if holds {
                    let mut passed = shared.passed.lock();
                    passed.push(out[..bytes].to_vec());
                }
                // A server that is gone refuses it.
                let _ = far.send(&out[..bytes]).await;
            }
            read = far.recv(&mut back) => {
                let Ok(bytes) = read else { continue };
                // Short headers are of connections that stood before.
                answered |= shared.holds.load(Ordering::SeqCst) && back[0] & LONG_HEADER != 0;
                if let Some(client) = client {
                    near.send_to(&back[..bytes], client).await.expect("it is sent");
                }
            }
        }
    }
}
