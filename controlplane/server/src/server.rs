//! One server, put together: the log, the gateway, the leader's loop, the HTTP API.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use controlplane_leader::gc::GcThresholds;
use controlplane_raft::{Raft, RaftConfig, ServerInfo};
use protocol_transport::{Endpoint, EndpointConfig, Identity, Limits, Pool, Secret};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::accept::{Doors, accept};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::forward::Forward;
use crate::gateway::{Gateway, liveness};
use crate::http::{self, Api};
use crate::leading::{self, LeadingConfig, LeadingStats};
use crate::loops::Loops;
use crate::machine::StateMachine;
use crate::threads::HttpThreads;
use crate::{certificates, tls, versions};

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
    loops: Loops,
    _http_threads: HttpThreads,
}

impl Server {
    /// Starts a server. Returns when it serves; it may still be looking for its cluster.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        let config = Arc::new(config);
        let identity = certificates::load(&config)?;
        let endpoint = bind(&config, &identity)?;
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
        let (gateway, updates) = Gateway::new(
            cluster.clone(),
            config.liveness,
            config.limits.sessions,
            config.node_join_token.as_ref().map(Secret::reveal),
        );
        let (heard, heard_receiver) = mpsc::channel(REPORTS_MAX);
        let (stats_sender, stats) = watch::channel(LeadingStats::default());
        let (stop_http, stopped) = watch::channel(false);
        let mut loops = Loops::default();
        let doors = Doors {
            region: endpoint.region().clone(),
            raft: cluster.raft().clone(),
            gateway: Arc::clone(&gateway),
            forward: Forward::new(
                cluster.clone(),
                Arc::clone(&gateway),
                heard.clone(),
                config.datacenter.clone(),
            ),
        };
        let accepting = accept(endpoint.listen(), doors);
        loops.spawn("the accept loop for QUIC", accepting);
        loops.spawn("the update coalescer", updates.run());
        let reporting = liveness::report(Arc::clone(&gateway), heard);
        loops.spawn("the liveness reporter", reporting);
        let settings = leading_config(&config);
        let leading = leading::run(cluster.clone(), settings, heard_receiver, stats_sender);
        loops.spawn("the leader's loop", leading);
        belong(&mut loops, &cluster, &config);
        let ending = certificates::watch_end(identity.clone());
        loops.spawn("the look at the certificate", ending);
        let https = tls::https(&config, &identity)?;
        let threads = HttpThreads::start().context("cannot start the threads of the HTTP API")?;
        let http = moved(http, threads.handle()).context("cannot serve the HTTP listener")?;
        let api = Api {
            cluster: cluster.clone(),
            gateway,
            config,
            leading: stats,
            restoring: Arc::default(),
        };
        let serving = http::serve(api, http, https, stopped);
        loops.spawn_on(threads.handle(), "the HTTP API", serving);
        Ok(Self {
            cluster,
            endpoint,
            http_address,
            stop_http,
            loops,
            _http_threads: threads,
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

    /// Ends when the log has failed, when one of the server's own loops is gone, or when it can
    /// never become part of a cluster: the process must exit then, and say why. Cancel-safe.
    pub async fn failed(&mut self) -> String {
        let raft = self.cluster.raft().clone();
        tokio::select! {
            // A log that failed ends loops too: its reason comes first.
            biased;
            reason = raft.failed() => reason.to_string(),
            reason = self.loops.failed() => reason,
        }
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
        self.loops.shutdown().await;
    }

    async fn hand_on(&self) {
        let raft = self.cluster.raft();
        let Some(other) = raft.successor() else {
            return;
        };
        if let Err(error) = raft.transfer_leadership(other).await {
            tracing::warn!(%error, to = %other, "leadership was not handed on");
        }
    }
}

/// Where nodes and the other servers come in.
fn bind(config: &Config, identity: &Identity) -> anyhow::Result<Endpoint> {
    Endpoint::bind(&EndpointConfig {
        listen: config.quic_listen,
        identity: identity.clone(),
        limits: Limits::default(),
    })
    .with_context(|| format!("cannot listen on {} (QUIC)", config.quic_listen))
}

/// The listener, with another runtime's poll.
fn moved(listener: TcpListener, to: &Handle) -> std::io::Result<TcpListener> {
    let listener = listener.into_std()?;
    let _inside = to.enter();
    TcpListener::from_std(listener)
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

/// Becomes part of the cluster, looks whether it still is, and what the others are.
fn belong(loops: &mut Loops, cluster: &Cluster, config: &Arc<Config>) {
    let raft = cluster.raft();
    let asking = versions::watch(cluster.clone());
    loops.spawn("the questions for the others' releases", asking);
    let forming = form(raft.clone(), Arc::clone(config));
    loops.spawn_once("forming the cluster", forming);
    let watching = watch_removal(raft.clone(), Arc::clone(config));
    loops.spawn("the look for a removal", watching);
}

/// Becomes part of the cluster, however long that takes. What may pass is tried again in there; an
/// error means that this server never will.
async fn form(raft: Raft, config: Arc<Config>) -> Result<(), String> {
    match raft.form(config.bootstrap_expect, &config.retry_join).await {
        Ok(()) => {
            tracing::info!("part of the cluster");
            Ok(())
        }
        Err(error) => {
            let error = anyhow::Error::new(error);
            Err(format!("cannot become part of a cluster: {error:#}"))
        }
    }
}

async fn watch_removal(raft: Raft, config: Arc<Config>) {
    raft.watch_removal(&config.retry_join).await;
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
