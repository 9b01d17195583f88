//! Servers that reach one another through relays, so that the links between them can be cut while
//! nodes and clients go on speaking to each. A relay also takes its time, as a network does.
//!
//! ```text
//!   server A --> relay of B --(A's own socket there)--> server B
//!                    |
//!                  Links: what passes
//! ```

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use controlplane_server::config::{Config, TlsConfig};
use controlplane_server::{Server, dev};
use parking_lot::Mutex;
use protocol_transport::Region;
use tokio::net::UdpSocket;

use crate::world::PATIENCE;

/// How long a datagram is on its way: whoever cuts the links right after an answer is sure that
/// what follows it has not arrived.
const ON_ITS_WAY: Duration = Duration::from_millis(15);
/// More than any datagram of QUIC.
const DATAGRAM_MAX: usize = 64 * 1024;

/// Which links between servers work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Links {
    All,
    None,
    /// Those to and from this server.
    Of(usize),
}

/// Three servers, and what is between them.
pub(crate) struct Relayed {
    pub(crate) servers: Vec<Server>,
    links: Arc<Mutex<Links>>,
}

impl Relayed {
    /// Starts three servers that become one cluster. A node may be silent for `silence`.
    pub(crate) async fn start(root: &Path, silence: Duration) -> Self {
        let links = Arc::new(Mutex::new(Links::All));
        let mut relays = Vec::new();
        let mut behind = Vec::new();
        for _ in 0..3 {
            let relay = UdpSocket::bind(("127.0.0.1", 0)).await.expect("a port");
            relays.push(Arc::new(relay));
            // Free a moment ago: the relays have to know where the servers are.
            let probe = std::net::UdpSocket::bind(("127.0.0.1", 0)).expect("a port");
            behind.push(probe.local_addr().expect("an address"));
        }
        let at = |relay: &Arc<UdpSocket>| relay.local_addr().expect("an address").to_string();
        let addresses: Vec<String> = relays.iter().map(at).collect();
        let mut servers = Vec::new();
        for number in 0..3 {
            let relay = Relay {
                number,
                behind: behind.clone(),
                socket: Arc::clone(&relays[number]),
                links: Arc::clone(&links),
            };
            tokio::spawn(relay.run());
            let mut config = config(root, number);
            config.liveness.silence = silence;
            config.quic_listen = behind[number];
            config.quic_advertise = Some(addresses[number].clone());
            config.retry_join.clone_from(&addresses);
            servers.push(Server::start(config).await.expect("a server"));
        }
        let relayed = Self { servers, links };
        relayed.leader().await;
        relayed
    }

    /// Lets these links work, and no others.
    pub(crate) fn let_work(&self, links: Links) {
        *self.links.lock() = links;
    }

    /// Waits until one leads and is answered by the others; which one.
    pub(crate) async fn leader(&self) -> usize {
        let hears = |server: &Server| {
            server.cluster().raft().hears_majority()
                && server.cluster().status().membership.voters.len() == 3
        };
        let finding = async {
            loop {
                if let Some(found) = self.servers.iter().position(hears) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, finding).await;
        found.expect("somebody leads")
    }
}

fn config(root: &Path, number: usize) -> Config {
    let directory = root.join(number.to_string());
    std::fs::create_dir_all(&directory).expect("a directory");
    let mut config = Config::dev(directory).expect("a configuration");
    let made = dev::certificates(root, &Region::global()).expect("certificates");
    config.tls = TlsConfig::Files {
        ca: made.ca,
        cert: made.server.certificate,
        key: made.server.key,
    };
    config.name = format!("server-{number}");
    config.http.listen.set_port(0);
    config.bootstrap_expect = 3;
    config
}

/// Where the others reach one server.
struct Relay {
    number: usize,
    /// Where the servers are themselves.
    behind: Vec<SocketAddr>,
    socket: Arc<UdpSocket>,
    links: Arc<Mutex<Links>>,
}

impl Relay {
    async fn run(self) {
        let relay = Arc::new(self);
        // To the server behind, whoever speaks has a socket of its own, so that answers find back.
        let mut inner: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
        let mut datagram = vec![0; DATAGRAM_MAX];
        while let Ok((length, from)) = relay.socket.recv_from(&mut datagram).await {
            let socket = match inner.entry(from) {
                Entry::Occupied(known) => Arc::clone(known.get()),
                Entry::Vacant(new) => {
                    let socket = relay.to_the_server().await;
                    tokio::spawn(Arc::clone(&relay).answers(Arc::clone(&socket), from));
                    Arc::clone(new.insert(socket))
                }
            };
            let bytes = datagram[..length].to_vec();
            let relay = Arc::clone(&relay);
            tokio::spawn(async move {
                tokio::time::sleep(ON_ITS_WAY).await;
                if relay.passes(from) {
                    // A server that is not there yet is a loss like any other.
                    let _ = socket.send(&bytes).await;
                }
            });
        }
    }

    /// A socket on which nothing but the server behind answers.
    async fn to_the_server(&self) -> Arc<UdpSocket> {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await.expect("a port");
        let server = self.behind[self.number];
        socket.connect(server).await.expect("an address");
        Arc::new(socket)
    }

    async fn answers(self: Arc<Self>, socket: Arc<UdpSocket>, to: SocketAddr) {
        let mut datagram = vec![0; DATAGRAM_MAX];
        loop {
            let Ok(length) = socket.recv(&mut datagram).await else {
                // An earlier datagram found nobody.
                continue;
            };
            let (bytes, relay) = (datagram[..length].to_vec(), Arc::clone(&self));
            tokio::spawn(async move {
                tokio::time::sleep(ON_ITS_WAY).await;
                if relay.passes(to) {
                    let _ = relay.socket.send_to(&bytes, to).await;
                }
            });
        }
    }

    /// Whether what this server and that at `other` say to each other arrives now.
    fn passes(&self, other: SocketAddr) -> bool {
        match *self.links.lock() {
            Links::All => true,
            Links::None => false,
            Links::Of(server) => server == self.number || self.behind[server] == other,
        }
    }
}
