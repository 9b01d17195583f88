//! A way on which a client's answer to a server's first answer can be kept back: its handshake is
//! over for the client, and not for the server. The first answer waits as long as the test wants,
//! so that all the client has to say before it passes.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::sync::watch;

/// Packets of a handshake have it (RFC 9000 section 17.2).
const LONG_HEADER: u8 = 0x80;
/// The type of such a packet, and that of one before the handshake (section 17.2.3).
const TYPE: u8 = 0x30;
const ZERO_RTT: u8 = 0x10;
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// A way from one client to a server, over UDP on the loopback address. It lasts as long as this
/// value.
#[derive(Debug)]
pub struct HeldWay {
    address: SocketAddr,
    passes: watch::Sender<Passes>,
    passed: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// Packets that pass a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passes {
    All,
    /// Packets of the client.
    OfClient,
    /// Packets of the server, and those that the client sent before it was answered.
    UntilAnswer,
}

impl HeldWay {
    /// A way to `server` that holds nothing yet.
    pub async fn to(server: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let far = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        far.connect(server).await.expect("an address");
        let address = near.local_addr().expect("an address");
        let (passes, now) = watch::channel(Passes::All);
        let passed = Arc::default();
        tokio::spawn(carry(near, far, now, Arc::clone(&passed)));
        Self {
            address,
            passes,
            passed,
        }
    }

    /// What the client takes for the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing of the server passes.
    pub fn hold_server(&self) {
        let _before = self.passes.send_replace(Passes::OfClient);
    }

    /// From now on nothing passes that the client says once the server has answered its first
    /// packets; or everything does again.
    pub fn hold(&self, hold: bool) {
        let passes = if hold {
            Passes::UntilAnswer
        } else {
            Passes::All
        };
        let _before = self.passes.send_replace(passes);
    }

    /// Packets of the client that have passed while the way held something.
    pub fn passed(&self) -> Vec<Vec<u8>> {
        let passed = self.passed.lock();
        passed.clone()
    }
}

async fn carry(
    near: UdpSocket,
    far: UdpSocket,
    mut passes: watch::Receiver<Passes>,
    passed: Arc<Mutex<Vec<Vec<u8>>>>,
) {
    let (mut out, mut back) = (vec![0; DATAGRAM_BYTES_MAX], vec![0; DATAGRAM_BYTES_MAX]);
    let (mut client, mut answered) = (None, false);
    loop {
        let now = *passes.borrow_and_update();
        tokio::select! {
            // What the client sent in one go goes on in one go.
            biased;
            read = near.recv_from(&mut out) => {
                let (bytes, from) = read.expect("a datagram");
                client = Some(from);
                let now = *passes.borrow();
                // Said before the answer was read, however long it was under way.
                let is_early = out[0] & (LONG_HEADER | TYPE) == LONG_HEADER | ZERO_RTT;
                if now == Passes::UntilAnswer && answered && !is_early {
                    continue;
                }
                if now != Passes::All {
                    passed.lock().push(out[..bytes].to_vec());
                }
                // A server that is gone refuses it.
                let _ = far.send(&out[..bytes]).await;
            }
            // The socket keeps what waits.
            read = far.recv(&mut back), if now != Passes::OfClient => {
                let Ok(bytes) = read else { continue };
                // Short headers are of connections that stood before.
                answered |= *passes.borrow() == Passes::UntilAnswer && back[0] & LONG_HEADER != 0;
                if let Some(client) = client {
                    near.send_to(&back[..bytes], client).await.expect("it is sent");
                }
            }
            changed = passes.changed() => if changed.is_err() {
                return;
            }
        }
    }
}
