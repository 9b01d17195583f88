//! Servers that can be started, stopped, killed and cut off, all in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use controlplane_raft::{
    Leader, OpenError, ProposeError, Proposed, Raft, RaftConfig, RaftStatus, ServerId, ServerInfo,
};
use protocol_transport::ca::{CertificateAuthority, CertificateRequest};
use protocol_transport::{
    BindError, Endpoint, EndpointConfig, Identity, Limits, Listener, Pool, Region, Role, StreamKind,
};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::machine::Journal;

/// Above what a loaded machine with two cores needs, and never reached when all is well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Authority {
    authority: CertificateAuthority,
}

impl Authority {
    pub(crate) fn new() -> Self {
        // Shown for tests that fail. Set already after the first test of a process.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        let day = Duration::from_secs(24 * 3600);
        Self {
            authority: CertificateAuthority::create("test", day).expect("an authority"),
        }
    }

    pub(crate) fn identity(&self, role: Role) -> Identity {
        let request = CertificateRequest {
            role,
            region: Region::global(),
            common_name: "server".to_owned(),
            names: Vec::new(),
            addresses: Vec::new(),
            validity: Duration::from_secs(3600),
        };
        let issued = self.authority.issue(&request).expect("issues");
        Identity::from_pem(&self.authority.pem().certificate, &issued).expect("an identity")
    }
}

/// Times for tests: short enough to be quick, long enough for two busy cores.
pub(crate) fn config() -> RaftConfig {
    RaftConfig {
        heartbeat: Duration::from_millis(80),
        election_min: Duration::from_millis(400),
        election_max: Duration::from_millis(800),
        patience: Duration::from_secs(10),
        ..RaftConfig::default()
    }
}

/// A server that runs.
pub(crate) struct Server {
    pub(crate) raft: Raft,
    pub(crate) journal: Journal,
    pub(crate) address: SocketAddr,
    directory: Arc<TempDir>,
    endpoint: Endpoint,
    /// While set, nothing is answered and nothing reaches others.
    cut_off: Arc<AtomicBool>,
    _serving: JoinSet<()>,
}

/// A server that does not run: what is left of it.
pub(crate) struct Stopped {
    directory: Arc<TempDir>,
    address: SocketAddr,
}

impl Stopped {
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Starts on another port.
    pub(crate) async fn start_elsewhere(self, authority: &Authority, config: RaftConfig) -> Server {
        let anywhere = ([127, 0, 0, 1], 0).into();
        Server::start_at(authority, config, self.directory, anywhere).await
    }

    pub(crate) async fn start(self, authority: &Authority, config: RaftConfig) -> Server {
        Server::start_at(authority, config, self.directory, self.address).await
    }

    /// Starts with a machine of one's own, where that may fail.
    pub(crate) async fn try_start(
        &self,
        authority: &Authority,
        config: RaftConfig,
        journal: Journal,
    ) -> Result<Server, OpenError> {
        let directory = Arc::clone(&self.directory);
        Server::start_machine(authority, config, directory, self.address, journal).await
    }
}

impl Server {
    pub(crate) async fn start(authority: &Authority, config: RaftConfig) -> Self {
        let directory = Arc::new(tempfile::tempdir().expect("a directory"));
        Self::start_at(authority, config, directory, ([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn start_at(
        authority: &Authority,
        config: RaftConfig,
        directory: Arc<TempDir>,
        listen: SocketAddr,
    ) -> Self {
        let journal = Journal::default();
        Self::start_machine(authority, config, directory, listen, journal)
            .await
            .expect("opens")
    }

    async fn start_machine(
        authority: &Authority,
        config: RaftConfig,
        directory: Arc<TempDir>,
        listen: SocketAddr,
        journal: Journal,
    ) -> Result<Self, OpenError> {
        let endpoint_config = EndpointConfig {
            listen,
            limits: Limits {
                handshake_timeout: Duration::from_secs(1),
                ..Limits::default()
            },
            ..EndpointConfig::loopback(authority.identity(Role::Server))
        };
        let endpoint = bind(&endpoint_config).await;
        let address = endpoint.local_address().expect("an address");
        let info = info(address);
        let pool = Pool::new(endpoint.clone());
        let raft = Raft::open(config, directory.path(), journal.clone(), pool, info).await?;
        let cut_off = Arc::new(AtomicBool::new(false));
        let mut serving = JoinSet::new();
        serving.spawn(serve(endpoint.listen(), raft.clone(), Arc::clone(&cut_off)));
        Ok(Self {
            raft,
            journal,
            address,
            directory,
            endpoint,
            cut_off,
            _serving: serving,
        })
    }

    pub(crate) fn info(&self) -> ServerInfo {
        info(self.address)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    pub(crate) fn id(&self) -> ServerId {
        self.raft.id()
    }

    /// Lets nothing in any more. Together with the same on the others, a partition.
    pub(crate) fn cut_off(&self) {
        self.cut_off.store(true, Ordering::SeqCst);
    }

    pub(crate) fn heal(&self) {
        self.cut_off.store(false, Ordering::SeqCst);
    }

    /// Stops as an operator would.
    pub(crate) async fn stop(self) -> Stopped {
        self.raft.shutdown().await;
        self.vanish().await
    }

    /// Disappears from the network first, as a process that is killed does. (What is on disk may
    /// be less after a real kill; `faults.rs` does that.)
    pub(crate) async fn kill(self) -> Stopped {
        self.endpoint.close();
        self.raft.shutdown().await;
        self.vanish().await
    }

    async fn vanish(mut self) -> Stopped {
        self.endpoint.close();
        self._serving.shutdown().await;
        self.endpoint.wait_idle().await;
        Stopped {
            directory: self.directory,
            address: self.address,
        }
    }

    pub(crate) async fn wait(&self, what: &str, condition: impl FnMut(&RaftStatus) -> bool) {
        let mut status = self.raft.status();
        let waited = tokio::time::timeout(PATIENCE, status.wait_for(condition)).await;
        if waited.is_err() {
            panic!(
                "{what} did not happen; status: {:?}",
                *self.raft.status().borrow()
            );
        }
    }

    pub(crate) async fn wait_applied(&self, index: u64) {
        self.wait("applying", |status| status.applied_index >= index)
            .await;
    }

    pub(crate) async fn propose(&self, command: &str) -> Proposed {
        self.raft
            .propose(command.to_owned())
            .await
            .expect("is accepted")
    }
}

/// Binds, waiting for the socket of a server that was just stopped to be closed.
async fn bind(config: &EndpointConfig) -> Endpoint {
    for _ in 0..100 {
        match Endpoint::bind(config) {
            Ok(endpoint) => return endpoint,
            Err(BindError::Bind { source, .. })
                if source.kind() == std::io::ErrorKind::AddrInUse =>
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("{} stays in use", config.listen);
}

fn info(address: SocketAddr) -> ServerInfo {
    ServerInfo {
        name: format!("server-{}", address.port()),
        address: address.to_string(),
        http_address: String::new(),
    }
}

async fn serve(mut listener: Listener, raft: Raft, cut_off: Arc<AtomicBool>) {
    let mut connections = JoinSet::new();
    while let Some(peer) = listener.accept().await {
        let (raft, cut_off) = (raft.clone(), Arc::clone(&cut_off));
        connections.spawn(async move {
            let mut streams = JoinSet::new();
            while let Ok((send, mut recv)) = peer.connection.accept_bi().await {
                if cut_off.load(Ordering::SeqCst) {
                    continue;
                }
                let (raft, identity) = (raft.clone(), peer.identity.clone());
                streams.spawn(async move {
                    if StreamKind::read(&mut recv, identity.role).await == Ok(StreamKind::Raft) {
                        // A stream that broke is the caller's to notice.
                        let _ = raft.serve_stream(&identity, send, recv).await;
                    }
                });
                while streams.try_join_next().is_some() {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Starts `count` servers and forms one cluster of them.
pub(crate) async fn form(authority: &Authority, count: u32, config: &RaftConfig) -> Vec<Server> {
    let mut servers = Vec::new();
    for _ in 0..count {
        servers.push(Server::start(authority, config.clone()).await);
    }
    // Everyone knows the first alone, and through it the others.
    let join = if count > 1 {
        vec![servers[0].address.to_string()]
    } else {
        Vec::new()
    };
    let forming = servers.iter().map(|server| server.raft.form(count, &join));
    let formed = tokio::time::timeout(PATIENCE, futures_join(forming))
        .await
        .expect("in time");
    for result in formed {
        result.expect("forms");
    }
    servers
}

async fn futures_join<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures
        .into_iter()
        .map(|future| Some(Box::pin(future)))
        .collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if let Some(running) = future
                && let std::task::Poll::Ready(value) = running.as_mut().poll(context)
            {
                *output = Some(value);
                *future = None;
            }
        }
        if outputs.iter().all(Option::is_some) {
            std::task::Poll::Ready(outputs.iter_mut().filter_map(Option::take).collect())
        } else {
            std::task::Poll::Pending
        }
    })
    .await
}

/// Proposes to whoever leads: after a fault the leadership may move once more.
pub(crate) async fn propose(servers: &[Server], command: &str) -> Proposed {
    loop {
        let leader = &servers[leader_of(servers).await];
        match leader.raft.propose(command.to_owned()).await {
            Err(ProposeError::NotLeader { .. } | ProposeError::Unavailable { .. }) => {}
            result => return result.expect("is accepted"),
        }
    }
}

/// Waits until one of the servers leads and all the others follow it; returns its place.
pub(crate) async fn leader_of(servers: &[Server]) -> usize {
    for _ in 0..1200 {
        let leads: Vec<Option<Leader>> =
            servers.iter().map(|server| server.raft.leader()).collect();
        let found = servers.iter().position(|server| {
            server.raft.is_leader()
                && leads
                    .iter()
                    .all(|lead| lead.as_ref().is_some_and(|lead| lead.id == server.id()))
        });
        if let Some(found) = found {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no leader was found");
}
