//! The process's one UDP socket: where it listens, and from where it connects.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::hmac;
use quinn::{ConnectionId, ConnectionIdGenerator, IdleTimeout, TransportConfig, VarInt};
use tokio::time::timeout;

use crate::identity::{Identity, PeerIdentity, PeerIdentityError};
use crate::listener::Listener;
use crate::role::{Region, Role};
use crate::tls::{self, TlsError};

/// Why a connection was closed, as its peer reads it.
pub mod close_code {
    /// The process is going away.
    pub const SHUTDOWN: u32 = 0;
    /// The certificate names no role, or one that may not connect here.
    pub const NOT_WELCOME: u32 = 1;
    /// The listener's queue is full; try another server or later.
    pub const OVERLOADED: u32 = 2;
    /// The connection stopped answering and was replaced.
    pub const UNRESPONSIVE: u32 = 3;
    /// A stream broke the protocol.
    pub const PROTOCOL: u32 = 4;
}

/// Limits of an endpoint and of each of its connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// An idle connection is probed this often, in time to keep it from `idle_timeout`.
    pub keep_alive: Duration,
    /// A connection without any packet for this long is dead.
    pub idle_timeout: Duration,
    /// A handshake that takes longer is dropped, on both sides.
    pub handshake_timeout: Duration,
    /// Handshakes at a time; half of them used up makes new addresses prove themselves (Retry),
    /// all of them used up makes new connections be refused.
    pub handshakes_max: usize,
    /// Connections waiting for `Listener::accept`; beyond, they are closed as overloaded.
    pub accept_queue_max: usize,
    /// Packets of connections not looked at yet, in count; quinn drops further ones.
    pub incoming_max: usize,
    /// Streams in each direction that a peer may have open at a time.
    pub streams_max: u32,
    /// Unread bytes that a peer may have sent on one stream.
    pub stream_window_bytes: u32,
    /// Unread bytes that a peer may have sent on one connection.
    pub receive_window_bytes: u32,
    /// Bytes handed to a connection and not acknowledged; writers wait beyond. Kept small
    /// because what is in the transport can no longer be overtaken or recalled.
    pub send_window_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            keep_alive: Duration::from_secs(3),
            idle_timeout: Duration::from_secs(12),
            handshake_timeout: Duration::from_secs(5),
            handshakes_max: 512,
            accept_queue_max: 1024,
            incoming_max: 4096,
            streams_max: 1024,
            stream_window_bytes: 1024 * 1024,
            receive_window_bytes: 8 * 1024 * 1024,
            send_window_bytes: 4 * 1024 * 1024,
        }
    }
}

/// What an endpoint is made of.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// Where to bind; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    pub identity: Identity,
    pub limits: Limits,
}

impl EndpointConfig {
    /// An endpoint on a free port of the loopback address, for tests and `--dev`.
    pub fn loopback(identity: Identity) -> Self {
        Self {
            listen: ([127, 0, 0, 1], 0).into(),
            identity,
            limits: Limits::default(),
        }
    }
}

/// Why an endpoint could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("binding UDP {address}")]
    Bind {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("configuring TLS")]
    Tls(#[source] TlsError),
    #[error("idle timeout {0:?} is too long for QUIC")]
    IdleTimeout(Duration),
    #[error("keep-alive {keep_alive:?} must be below half of the idle timeout {idle_timeout:?}")]
    KeepAlive {
        keep_alive: Duration,
        idle_timeout: Duration,
    },
}

/// Why another certificate cannot take the place of the one in use.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    #[error("the certificate is that of a {role} of region {region:?}", region = .region.as_str())]
    SomebodyElse { role: Role, region: Region },
    #[error("the certificate cannot be used")]
    Unusable(#[source] BindError),
}

/// Why a connection to a server could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("connecting to {address}")]
    Start {
        address: SocketAddr,
        #[source]
        source: quinn::ConnectError,
    },
    #[error("the handshake with {address} failed")]
    Handshake {
        address: SocketAddr,
        #[source]
        source: quinn::ConnectionError,
    },
    #[error("the handshake with {address} took longer than {limit:?}")]
    Timeout {
        address: SocketAddr,
        limit: Duration,
    },
    #[error("{address} cannot be placed")]
    Identity {
        address: SocketAddr,
        #[source]
        source: PeerIdentityError,
    },
    #[error("{address} is a {role}, not a server")]
    NotServer { address: SocketAddr, role: Role },
    #[error("finding the address of {address:?}")]
    Resolve {
        address: String,
        #[source]
        source: AddressError,
    },
    #[error("{address:?} failed a moment ago")]
    FailedJustNow { address: String },
    #[error("{0} servers are as many as a pool holds")]
    PoolFull(usize),
}

/// Why a text is no address to connect to.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("asking the resolver")]
    Lookup(#[source] io::Error),
    #[error("the resolver knows no address")]
    NoAddress,
}

/// A QUIC endpoint that can listen and connect on one socket. Clones share it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    quinn: quinn::Endpoint,
    own: PeerIdentity,
    limits: Limits,
    /// What connections that we begin show from now on.
    client: Arc<RwLock<quinn::ClientConfig>>,
}

impl Endpoint {
    /// Binds the socket and prepares both halves. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be bound, or the identity or limits cannot be used.
    pub fn bind(config: &EndpointConfig) -> Result<Self, BindError> {
        let limits = &config.limits;
        let (server, client) = halves(&config.identity, limits)?;
        let bound = |source| BindError::Bind {
            address: config.listen,
            source,
        };
        let socket = std::net::UdpSocket::bind(config.listen).map_err(bound)?;
        let runtime = quinn::default_runtime()
            .ok_or_else(|| bound(io::Error::other("there is no tokio runtime")))?;
        let endpoint = remembering(&config.identity, config.listen);
        let quinn = quinn::Endpoint::new(endpoint, Some(server), socket, runtime).map_err(bound)?;
        Ok(Self {
            quinn,
            own: config.identity.own().clone(),
            limits: limits.clone(),
            client: Arc::new(RwLock::new(client)),
        })
    }

    /// Shows another certificate from the next connection on, in both directions; connections that
    /// stand go on. The role and region must be the ones that the endpoint began with.
    ///
    /// # Errors
    /// When the identity is somebody else's or cannot be used; the one in use stays.
    pub fn use_identity(&self, identity: &Identity) -> Result<(), RenewError> {
        let (old, new) = (&self.own, identity.own());
        if (old.role, &old.region) != (new.role, &new.region) {
            return Err(RenewError::SomebodyElse {
                role: new.role,
                region: new.region.clone(),
            });
        }
        let (server, client) = halves(identity, &self.limits).map_err(RenewError::Unusable)?;
        self.quinn.set_server_config(Some(server));
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
        Ok(())
    }

    /// Starts accepting connections. To be called once: two listeners would share the peers.
    pub fn listen(&self) -> Listener {
        Listener::start(self.quinn.clone(), self.limits.clone())
    }

    /// Connects to the server of our own region at `address`, and checks that it is one.
    ///
    /// # Errors
    /// When the handshake fails or takes too long, or the peer is not a server of this region.
    pub async fn connect(&self, address: SocketAddr) -> Result<quinn::Connection, ConnectError> {
        let name = Role::Server.dns_name(&self.own.region);
        let client = self
            .client
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let connecting = self
            .quinn
            .connect_with(client, address, &name)
            .map_err(|source| ConnectError::Start { address, source })?;
        let limit = self.limits.handshake_timeout;
        let connection = timeout(limit, connecting)
            .await
            .map_err(|_| ConnectError::Timeout { address, limit })?
            .map_err(|source| ConnectError::Handshake { address, source })?;
        // The name was verified by TLS; this also refuses a certificate with two roles.
        let peer = PeerIdentity::of_connection(&connection)
            .map_err(|source| ConnectError::Identity { address, source })?;
        if peer.role != Role::Server {
            connection.close(close_code::NOT_WELCOME.into(), b"not a server");
            return Err(ConnectError::NotServer {
                address,
                role: peer.role,
            });
        }
        Ok(connection)
    }

    /// Closes all connections and stops listening; pending handshakes end too.
    pub fn close(&self) {
        self.quinn
            .close(close_code::SHUTDOWN.into(), b"shutting down");
    }

    /// Waits until all connections are gone, so that peers hear of a close.
    pub async fn wait_idle(&self) {
        self.quinn.wait_idle().await;
    }

    /// Where the socket is bound.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.quinn.local_addr()
    }

    /// What our certificate says.
    pub fn own(&self) -> &PeerIdentity {
        &self.own
    }

    pub fn region(&self) -> &Region {
        &self.own.region
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Connections that are open, in both directions.
    pub fn open_connections(&self) -> usize {
        self.quinn.open_connections()
    }
}

/// What both directions show and expect.
fn halves(
    identity: &Identity,
    limits: &Limits,
) -> Result<(quinn::ServerConfig, quinn::ClientConfig), BindError> {
    let transport = Arc::new(transport_config(limits)?);
    let tls = tls::quic_server(identity).map_err(BindError::Tls)?;
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(tls));
    server
        .transport_config(Arc::clone(&transport))
        .migration(true)
        .max_incoming(limits.incoming_max)
        // What clients may send before we look at them, each and in all.
        .incoming_buffer_size(64 * 1024)
        .incoming_buffer_size_total(16 * 1024 * 1024);
    let tls = tls::quic_client(identity).map_err(BindError::Tls)?;
    let mut client = quinn::ClientConfig::new(Arc::new(tls));
    client.transport_config(transport);
    Ok((server, client))
}

/// An endpoint that, after a crash and a restart at the same address, can tell the peers of the
/// process before it that their connections are gone (a stateless reset, RFC 9000, section 10.3).
/// Without it they would write into them until their calls run out of time.
///
/// The key comes from the private key, so that it survives a restart, and from the address: servers
/// that share a certificate must not be made to reset each other's connections (section 21.11
/// there). Servers on several hosts that listen on an unspecified address need certificates of
/// their own for the same reason.
fn remembering(identity: &Identity, listen: SocketAddr) -> quinn::EndpointConfig {
    let secret = hmac::Key::new(hmac::HMAC_SHA256, identity.key.secret_der());
    let purpose = format!("drover quic stateless reset {listen}");
    let reset = hmac::sign(&secret, purpose.as_bytes());
    let reset = hmac::Key::new(hmac::HMAC_SHA256, reset.as_ref());
    let mut config = quinn::EndpointConfig::new(Arc::new(reset));
    config.cid_generator(|| Box::new(RandomIds));
    config
}

/// Connection ids without a mark of the process that made them. The library's own generator marks
/// them with a key of the process, and drops packets of the process before it without a reset.
#[derive(Debug)]
struct RandomIds;

const CONNECTION_ID_BYTES: usize = 8;

impl ConnectionIdGenerator for RandomIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; CONNECTION_ID_BYTES];
        // It fails only where the kernel has no randomness, and then there was no TLS either; an id
        // that is taken is not used.
        let _ = aws_lc_rs::rand::fill(&mut bytes);
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn transport_config(limits: &Limits) -> Result<TransportConfig, BindError> {
    let Limits {
        keep_alive,
        idle_timeout,
        ..
    } = *limits;
    // A probe must have the time to be lost once.
    if keep_alive * 2 >= idle_timeout {
        return Err(BindError::KeepAlive {
            keep_alive,
            idle_timeout,
        });
    }
    let idle =
        IdleTimeout::try_from(idle_timeout).map_err(|_| BindError::IdleTimeout(idle_timeout))?;
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(keep_alive))
        .max_concurrent_bidi_streams(VarInt::from_u32(limits.streams_max))
        .max_concurrent_uni_streams(VarInt::from_u32(limits.streams_max))
        .stream_receive_window(VarInt::from_u32(limits.stream_window_bytes))
        .receive_window(VarInt::from_u32(limits.receive_window_bytes))
        .send_window(limits.send_window_bytes)
        // Nothing of ours is a datagram; do not let a peer fill a buffer with them.
        .datagram_receive_buffer_size(None);
    Ok(transport)
}
