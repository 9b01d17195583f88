//! The process's one UDP socket: where it listens, and from where it connects.
//!
//! `limits`: what each connection may take. `client`: what connections that we begin show, and what
//! they remember of servers. `early`: those that are used before their handshake is over.
//! `reset`: how peers of a crashed process hear that it is gone. `socket`: the socket itself.
//! `error`: what can go wrong.

mod client;
mod early;
mod error;
mod limits;
mod reset;
mod socket;
mod window;

pub use early::{Dialed, Early, EarlyWords};
pub use error::{AddressError, BindError, ConnectError, RenewError, is_refusal};
pub use limits::Limits;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::door::Wish;
use crate::identity::{Identity, PeerIdentity};
use crate::listener::Listener;
use crate::role::{Region, Role};
use crate::tls::{self, TlsError};
use client::Client;
use limits::transport_config;
use reset::remembering;

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

/// A QUIC endpoint that can listen and connect on one socket. Clones share it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    quinn: quinn::Endpoint,
    own: PeerIdentity,
    limits: Limits,
    /// Where connections are driven, whoever begins them.
    runtime: Handle,
    /// What connections that we begin show from now on.
    client: Arc<Mutex<Client>>,
}

impl Endpoint {
    /// Binds the socket and prepares both halves. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be bound, or the identity or limits cannot be used.
    pub fn bind(config: &EndpointConfig) -> Result<Self, BindError> {
        Self::bind_on(config, Arc::new(quinn::TokioRuntime))
    }

    /// As [`Self::bind`], with the socket and the drivers of connections as `runtime` makes them:
    /// how a process that simulates many nodes comes between one of them and the network.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_on(
        config: &EndpointConfig,
        runtime: Arc<dyn quinn::Runtime>,
    ) -> Result<Self, BindError> {
        let bound = |source| BindError::Bind {
            address: config.listen,
            source,
        };
        here(config)?;
        let socket = socket::bind(config.listen).map_err(bound)?;
        let socket = runtime.wrap_udp_socket(socket).map_err(bound)?;
        Self::over(config, socket, runtime, None)
    }

    /// As [`Self::bind_on`], over a network of the caller's own: `socket` stands for one that is
    /// bound at [`EndpointConfig::listen`]. With a `seed`, what QUIC draws by itself (not what
    /// TLS draws, nor connection ids) follows from it.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn over(
        config: &EndpointConfig,
        socket: Arc<dyn quinn::AsyncUdpSocket>,
        runtime: Arc<dyn quinn::Runtime>,
        seed: Option<[u8; 32]>,
    ) -> Result<Self, BindError> {
        let limits = &config.limits;
        let (server, client) = halves(&config.identity, limits)?;
        let here = here(config)?;
        let mut endpoint = remembering(&config.identity, config.listen);
        endpoint.rng_seed(seed);
        let quinn =
            quinn::Endpoint::new_with_abstract_socket(endpoint, Some(server), socket, runtime)
                .map_err(|source| BindError::Bind {
                    address: config.listen,
                    source,
                })?;
        Ok(Self {
            quinn,
            own: config.identity.own().clone(),
            limits: limits.clone(),
            runtime: here,
            client: Arc::new(Mutex::new(client)),
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
        *self.client() = client;
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
        let connecting = self.begin(address, None)?;
        self.finish(connecting, address).await
    }

    /// The same for a node, which tells the server what it wants. It waits for the first answer as
    /// long as it says, and then as long as a handshake may take.
    ///
    /// # Errors
    /// As [`Self::connect`]; [`ConnectError::is_busy`] where the server has no time for it now.
    pub async fn connect_wishing(
        &self,
        address: SocketAddr,
        wish: Wish,
    ) -> Result<quinn::Connection, ConnectError> {
        let connecting = self.begin(address, Some(wish))?;
        self.answered(connecting, address, wish).await
    }

    async fn answered(
        &self,
        mut connecting: quinn::Connecting,
        address: SocketAddr,
        wish: Wish,
    ) -> Result<quinn::Connection, ConnectError> {
        let limit = wish.patience;
        let first = timeout(limit, connecting.handshake_data()).await;
        // The connection itself says what is wrong with it.
        let _ = first.map_err(|_| ConnectError::NoAnswer { address, limit })?;
        self.finish(connecting, address).await
    }

    /// The same, where the server has seen us before without the round trip of a handshake: whoever
    /// calls says what may be replayed, and nothing else before it has asked [`Early::settle`].
    ///
    /// # Errors
    /// As [`Self::connect`], as far as it is known; the rest is told by [`Early::settle`].
    pub async fn connect_early(
        &self,
        address: SocketAddr,
        wish: Wish,
    ) -> Result<Dialed, ConnectError> {
        let connecting = self.begin(address, Some(wish))?;
        let limit = wish.patience + self.limits.handshake_timeout;
        match Dialed::of(connecting, address, limit) {
            Ok(dialed) => Ok(dialed),
            Err(connecting) => Ok(self.answered(connecting, address, wish).await?.into()),
        }
    }

    /// This socket, for somebody whom no server knows: a process that simulates many nodes has one
    /// for each.
    #[must_use]
    pub fn stranger(&self) -> Self {
        let client = self.client().stranger();
        Self {
            client: Arc::new(Mutex::new(client)),
            ..self.clone()
        }
    }

    fn begin(
        &self,
        address: SocketAddr,
        wish: Option<Wish>,
    ) -> Result<quinn::Connecting, ConnectError> {
        let name = Role::Server.dns_name(&self.own.region);
        let mut client = self.client().to(address);
        if let Some(wish) = wish {
            client.initial_dst_cid_provider(Arc::new(move || wish.connection_id()));
        }
        let _inside = self.runtime.enter();
        self.quinn
            .connect_with(client, address, &name)
            .map_err(|source| ConnectError::Start { address, source })
    }

    async fn finish(
        &self,
        connecting: quinn::Connecting,
        address: SocketAddr,
    ) -> Result<quinn::Connection, ConnectError> {
        let limit = self.limits.handshake_timeout;
        let connection = timeout(limit, connecting)
            .await
            .map_err(|_| ConnectError::Timeout { address, limit })?
            .map_err(|source| ConnectError::Handshake { address, source })?;
        check_server(&connection, address)?;
        Ok(connection)
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock()
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

/// The name was verified by TLS; this also refuses a certificate with two roles.
fn check_server(connection: &quinn::Connection, address: SocketAddr) -> Result<(), ConnectError> {
    let peer = PeerIdentity::of_connection(connection)
        .map_err(|source| ConnectError::Identity { address, source })?;
    if peer.role == Role::Server {
        return Ok(());
    }
    connection.close(close_code::NOT_WELCOME.into(), b"not a server");
    Err(ConnectError::NotServer {
        address,
        role: peer.role,
    })
}

/// The runtime that an endpoint is made in.
fn here(config: &EndpointConfig) -> Result<Handle, BindError> {
    Handle::try_current().map_err(|_| BindError::Bind {
        address: config.listen,
        source: io::Error::other("there is no tokio runtime"),
    })
}

/// What both directions show and expect.
fn halves(
    identity: &Identity,
    limits: &Limits,
) -> Result<(quinn::ServerConfig, Client), BindError> {
    let transport = Arc::new(transport_config(limits)?);
    let tls = tls::quic_server(identity).map_err(BindError::Tls)?;
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(tls));
    server
        .transport_config(Arc::clone(&transport))
        .migration(true)
        .max_incoming(limits.incoming_max)
        // What clients may send before we look at them, each and in all.
        .incoming_buffer_size(16 * 1024)
        .incoming_buffer_size_total(16 * 1024 * 1024);
    let tls = tls::quic_client(identity).map_err(BindError::Tls)?;
    let client = Client::new(tls, transport);
    let client = client.map_err(|source| BindError::Tls(TlsError::Quic(source)))?;
    Ok((server, client))
}
