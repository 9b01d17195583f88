//! One server, put together: the log, the gateway, the leader's loop, the HTTP API.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use controlplane_leader::gc::GcThresholds;
use controlplane_raft::{Raft, RaftConfig, ServerInfo};
use protocol_transport::{
    Endpoint, EndpointConfig, Identity, Limits, Listener, Peer, Pool, Role, StreamKind,
};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::cluster::Cluster;
use crate::config::{Config, TlsConfig};
use crate::forward::Forward;
use crate::gateway::{Gateway, liveness};
use crate::http::{self, Api};
use crate::leading::{self, LeadingConfig, LeadingStats};
use crate::machine::StateMachine;
use crate::{dev, tls};

/// Liveness reports that wait for the leader's loop.
const REPORTS_MAX: usize = 64;
/// How long a leader looks for a successor before it ends. The others elect one in that time too.
const HAND_ON_MAX: Duration = Duration::from_secs(2);
/// How long the end of a server may take.
const SHUTDOWN_MAX: Duration = Duration::from_secs(10);

/// A running server.
#[derive(Debug)]
pub struct Server {
    cluster: Cluster,
    endpoint: Endpoint,
    http_address: SocketAddr,
    stop_http: watch::Sender<bool>,
    tasks: tokio::task::JoinSet<()>,
}

impl Server {
    /// Starts a server. Returns when it serves; it may still be looking for its cluster.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        let config = Arc::new(config);
        let identity = identity(&config)?;
        let endpoint = Endpoint::bind(&EndpointConfig {
            listen: config.quic_listen,
            identity: identity.clone(),
            limits: Limits::default(),
        })
        .with_context(|| format!("cannot listen on {} (QUIC)", config.quic_listen))?;
        let http = TcpListener::bind(config.http.listen)
            .await
            .with_context(|| format!("cannot listen on {} (HTTP)", config.http.listen))?;
        let http_address = http
            .local_addr()
            .context("the HTTP listener has no address")?;
        let info = ServerInfo {
            name: config.name.clone(),
            address: advertised(config.quic_advertise.as_deref(), endpoint.local_address()?),
            http_address: advertised(config.http.advertise.as_deref(), http_address),
        };
        let cluster = open_log(&config, endpoint.clone(), info).await?;
        let raft = cluster.raft().clone();
        let gateway = Gateway::new(
            cluster.clone(),
            config.liveness,
            config.limits.sessions,
            config.node_join_token.as_deref(),
        );
        let (heard, heard_receiver) = mpsc::channel(REPORTS_MAX);
        let forward = Forward::new(cluster.clone(), Arc::clone(&gateway), heard.clone());
        let (stats_sender, stats) = watch::channel(LeadingStats::default());
        let (stop_http, stopped) = watch::channel(false);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(accept(
            endpoint.listen(),
            raft.clone(),
            Arc::clone(&gateway),
            forward,
        ));
        tasks.spawn(liveness::report(Arc::clone(&gateway), heard));
        tasks.spawn(leading::run(
            cluster.clone(),
            leading_config(&config),
            heard_receiver,
            stats_sender,
        ));
        tasks.spawn(form(raft, Arc::clone(&config)));
        let https = tls::https(&config, &identity)?;
        let api = Api {
            cluster: cluster.clone(),
            gateway,
            config,
            leading: stats,
        };
        tasks.spawn(http::serve(api, http, https, stopped));
        Ok(Self {
            cluster,
            endpoint,
            http_address,
            stop_http,
            tasks,
        })
    }

    /// Where the HTTP API listens.
    pub fn http_address(&self) -> SocketAddr {
        self.http_address
    }

    /// Where QUIC listens.
    pub fn quic_address(&self) -> anyhow::Result<SocketAddr> {
        self.endpoint
            .local_address()
            .context("the QUIC endpoint has no address")
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Ends when the log has failed: the process must exit then, and say why.
    pub async fn failed(&self) -> String {
        self.cluster.raft().failed().await.to_string()
    }

    /// Ends the server: leadership is handed on first, so that the others need no election.
    pub async fn shutdown(mut self) {
        let ended = tokio::time::timeout(SHUTDOWN_MAX, async {
            if tokio::time::timeout(HAND_ON_MAX, self.hand_on())
                .await
                .is_err()
            {
                tracing::warn!("nobody took the leadership within {HAND_ON_MAX:?}");
            }
            self.stop_http.send_replace(true);
            self.cluster.raft().shutdown().await;
            self.endpoint.close();
            self.endpoint.wait_idle().await;
        });
        if ended.await.is_err() {
            tracing::warn!("the end took longer than {SHUTDOWN_MAX:?}");
        }
        self.tasks.shutdown().await;
    }

    async fn hand_on(&self) {
        let status = self.cluster.status();
        if !status.is_leader() {
            return;
        }
        let Some(other) = status.membership.voters.keys().find(|id| **id != status.id) else {
            return;
        };
        if let Err(error) = self.cluster.raft().transfer_leadership(*other).await {
            tracing::warn!(%error, to = %other, "leadership was not handed on");
        }
    }
}

/// Opens the log below the data directory, and the state behind it.
async fn open_log(
    config: &Config,
    endpoint: Endpoint,
    info: ServerInfo,
) -> anyhow::Result<Cluster> {
    let pool = Pool::new(endpoint);
    let (machine, hub) = StateMachine::new();
    let directory = config.data_dir.join("raft");
    let raft = Raft::open(raft_config(config), &directory, machine, pool.clone(), info)
        .await
        .with_context(|| format!("cannot open the log in {}", directory.display()))?;
    Ok(Cluster::new(raft, hub, pool))
}

/// Becomes part of the cluster, however long that takes.
async fn form(raft: Raft, config: Arc<Config>) {
    match raft.form(config.bootstrap_expect, &config.retry_join).await {
        Ok(()) => tracing::info!("part of the cluster"),
        Err(error) => tracing::error!(%error, "cannot become part of a cluster"),
    }
}

/// Accepts connections, and on each of them streams.
async fn accept(mut listener: Listener, raft: Raft, gateway: Arc<Gateway>, forward: Forward) {
    while let Some(peer) = listener.accept().await {
        let (raft, gateway, forward) = (raft.clone(), Arc::clone(&gateway), forward.clone());
        tokio::spawn(serve_peer(peer, raft, gateway, forward));
    }
}

async fn serve_peer(peer: Peer, raft: Raft, gateway: Arc<Gateway>, forward: Forward) {
    let Peer {
        connection,
        identity,
    } = peer;
    let identity = Arc::new(identity);
    while let Ok((send, mut recv)) = connection.accept_bi().await {
        let (raft, gateway, forward) = (raft.clone(), Arc::clone(&gateway), forward.clone());
        let (identity, connection) = (Arc::clone(&identity), connection.clone());
        tokio::spawn(async move {
            let kind = match StreamKind::read(&mut recv, identity.role).await {
                Ok(kind) => kind,
                Err(error) => {
                    tracing::warn!(peer = %identity, %error, "a stream was refused");
                    return;
                }
            };
            match (kind, identity.role) {
                (StreamKind::Raft, _) => {
                    if let Err(error) = raft.serve_stream(&identity, send, recv).await {
                        tracing::debug!(peer = %identity, %error, "a log call was not answered");
                    }
                }
                (StreamKind::Forward, _) => forward.serve(send, recv).await,
                (kind, Role::Node) => gateway.serve(kind, send, recv, connection).await,
                (kind, role) => tracing::warn!(%kind, %role, "a stream that nothing serves"),
            }
        });
    }
}

fn identity(config: &Config) -> anyhow::Result<Identity> {
    match &config.tls {
        TlsConfig::Files { ca, cert, key } => {
            Identity::load(ca, cert, key).context("cannot use the certificates")
        }
        TlsConfig::Dev => {
            let made = dev::certificates(&config.data_dir, &config.region)?;
            Identity::load(&made.ca, &made.server.certificate, &made.server.key)
                .context("cannot use the development certificates")
        }
    }
}

fn advertised(given: Option<&str>, listening: SocketAddr) -> String {
    given.map_or_else(|| listening.to_string(), str::to_owned)
}

fn raft_config(config: &Config) -> RaftConfig {
    RaftConfig {
        heartbeat: config.raft.heartbeat,
        election_min: config.raft.election,
        election_max: config.raft.election * 2,
        snapshot_threshold: config.raft.snapshot_entries,
        trailing_entries: config.raft.snapshot_entries + config.raft.snapshot_entries / 4,
        ..RaftConfig::default()
    }
}

fn leading_config(config: &Config) -> LeadingConfig {
    LeadingConfig {
        silence: config.liveness.silence,
        takeover_extra: config.liveness.takeover_extra,
        gc: GcThresholds {
            evals: config.gc.evals,
            jobs: config.gc.jobs,
            nodes: config.gc.nodes,
            deployments: config.gc.deployments,
        },
        schedulers: config.schedulers,
    }
}
