//! One server, put together: the log, the gateway, the leader's loop, the HTTP API.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use controlplane_keyring::{FileKeks, HostKeks, KekStore, Keyring};
use controlplane_leader::gc::GcThresholds;
use controlplane_raft::{Disk, HostDisk, Raft, RaftConfig, ServerInfo};
use protocol_transport::{Endpoint, EndpointConfig, Identity, Limits, Pool};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::accept::{Doors, accept};
use crate::access::Access;
use crate::certificates::Certificates;
use crate::clock::{HostClock, WallClock};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::forward::Forward;
use crate::gateway::liveness::HeardReport;
use crate::gateway::{CoalescerLoop, Gateway, TaskRequests, admission, lateness, liveness};
use crate::http::{self, Api, TaskEntry};
use crate::keyring::{self, KekService};
use crate::leading::{self, LeadingConfig, LeadingStats, LedFor, Schedulers};
use crate::login::Logins;
use crate::loops::Loops;
use crate::machine::StateMachine;
use crate::planted::PlantedBug;
use crate::threads::HttpThreads;
use crate::{certificates, versions};

/// Liveness reports that wait for the leader's loop.
const REPORTS_MAX: usize = 64;
/// How long a leader looks for a successor before it ends. The others elect one in that time too.
const HAND_ON_MAX: Duration = Duration::from_secs(2);
/// How long connections may take to close. Whoever is there has heard of it within a round trip;
/// for those who are gone QUIC waits three probe timeouts (RFC 9000 section 10.2), which are
/// seconds where they were slow to answer.
const CLOSE_MAX: Duration = Duration::from_secs(1);
/// How long the end of a server may take.
const SHUTDOWN_MAX: Duration = Duration::from_secs(10);

/// What a server stands on: this host, or what a simulator has in its place.
#[derive(Clone, Debug)]
pub struct Ground {
    /// What the server shows to others.
    pub identity: Identity,
    /// Its way to them.
    pub endpoint: Endpoint,
    /// What its log is kept on.
    pub disk: Arc<dyn Disk>,
    /// The keeper of its KEKs.
    pub keks: Arc<dyn KekStore>,
    /// What tells it the time.
    pub clock: Arc<dyn WallClock>,
    /// Who schedules while it leads.
    pub schedulers: Schedulers,
    /// A bug that a simulator plants; `None` on every host.
    pub planted: Option<PlantedBug>,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    cluster: Cluster,
    keyring: Keyring,
    endpoint: Endpoint,
    certificates: Certificates,
    loops: Loops,
    /// `None` = it serves no HTTP.
    http: Option<HttpPart>,
}

/// The part of a server that serves HTTP.
#[derive(Debug)]
struct HttpPart {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    /// Serves requests of tasks; the gateway does not keep it.
    _tasks: Arc<dyn TaskRequests>,
    _threads: HttpThreads,
}

impl Server {
    /// Starts a server. Returns when it serves; it may still be looking for its cluster.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        Self::start_at(config, Arc::new(HostClock)).await
    }

    /// Starts a server whose time of day is that of `clock`.
    pub async fn start_at(config: Config, clock: Arc<dyn WallClock>) -> anyhow::Result<Self> {
        let config = Arc::new(config);
        let identity = certificates::load(&config)?;
        let ground = Ground {
            endpoint: bind(&config, &identity)?,
            identity,
            disk: Arc::new(HostDisk),
            keks: Arc::new(HostKeks::new(
                FileKeks::new(config.kek_dir.clone()),
                config.kek_sources.clone(),
                config.wrapping_kek.clone(),
            )),
            clock,
            schedulers: Schedulers::Threads(config.schedulers),
            planted: None,
        };
        let http = TcpListener::bind(config.http.listen)
            .await
            .with_context(|| format!("cannot listen on {} (HTTP)", config.http.listen))?;
        let address = http
            .local_addr()
            .context("the HTTP listener has no address")?;
        let at = advertised(config.http.advertise.as_deref(), address);
        let (mut server, api) = Self::assemble(config, &ground, at).await?;
        server.serve_http(api, http)?;
        Ok(server)
    }

    /// Starts a server on ground of the caller's own, which nobody reaches by HTTP but with what is
    /// made of the answered [`Api`] (`http::router`). Whatever runs of it runs on the runtime that
    /// this is called in.
    pub async fn start_on(config: Config, ground: &Ground) -> anyhow::Result<(Self, Api)> {
        Self::assemble(Arc::new(config), ground, String::new()).await
    }

    /// Everything but who serves the HTTP API, which others are told to be at `http_address`.
    async fn assemble(
        config: Arc<Config>,
        ground: &Ground,
        http_address: String,
    ) -> anyhow::Result<(Self, Api)> {
        let endpoint = ground.endpoint.clone();
        let info = ServerInfo {
            name: config.name.clone(),
            address: advertised(config.quic_advertise.as_deref(), endpoint.local_address()?),
            http_address,
        };
        let cluster = open_log(&config, ground, info).await?;
        let keks = KekService::new(Arc::clone(&ground.keks));
        let keyring = keks.keyring().clone();
        let (gateway, updates) = Gateway::new(cluster.clone(), &config, keyring);
        let mut loops = Loops::default();
        let parts = (&gateway, &keks);
        let leading = begin(&mut loops, &config, ground, &cluster, parts, updates);
        let certificates =
            Certificates::new(endpoint.clone(), config.http.tls, ground.identity.clone())?;
        let ending = certificates::watch_end(certificates.identity());
        loops.spawn("the look at the certificate", ending);
        let api = Api {
            cluster: cluster.clone(),
            gateway,
            config,
            leading,
            keyring: keks.keyring().clone(),
            keks,
            logins: Logins::default(),
            restoring: Arc::default(),
        };
        let server = Self {
            cluster,
            keyring: api.keyring.clone(),
            endpoint,
            certificates,
            loops,
            http: None,
        };
        Ok((server, api))
    }

    fn serve_http(&mut self, api: Api, listener: TcpListener) -> anyhow::Result<()> {
        let address = listener
            .local_addr()
            .context("the HTTP listener has no address")?;
        let threads = HttpThreads::start().context("cannot start the threads of the HTTP API")?;
        let listener =
            moved(listener, threads.handle()).context("cannot serve the HTTP listener")?;
        let (stop, stopped) = watch::channel(false);
        let tasks = TaskEntry::new(api.clone(), threads.handle().clone(), stopped.clone());
        let tasks: Arc<dyn TaskRequests> = Arc::new(tasks);
        api.gateway.serve_tasks(Arc::downgrade(&tasks));
        let serving = http::serve(api, listener, self.certificates.https(), stopped);
        self.loops
            .spawn_on(threads.handle(), "the HTTP API", serving);
        self.http = Some(HttpPart {
            address,
            stop,
            _tasks: tasks,
            _threads: threads,
        });
        Ok(())
    }

    /// Where the HTTP API listens; port 0 of nowhere where there is none.
    pub fn http_address(&self) -> SocketAddr {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        self.http.as_ref().map_or(nowhere, |http| http.address)
    }

    /// Where QUIC listens.
    pub fn quic_address(&self) -> anyhow::Result<SocketAddr> {
        self.endpoint
            .local_address()
            .context("the QUIC endpoint has no address")
    }

    /// What it shows to others.
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Seals and opens the secrets of the state.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
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
        let deadline = Instant::now() + SHUTDOWN_MAX;
        let handed_on = Instant::now() + HAND_ON_MAX;
        end(handed_on, "handing on the leadership", self.hand_on()).await;
        if let Some(http) = &self.http {
            http.stop.send_replace(true);
        }
        end(deadline, "closing the log", self.cluster.raft().shutdown()).await;
        self.endpoint.close();
        let closed = deadline.min(Instant::now() + CLOSE_MAX);
        let _ = tokio::time::timeout_at(closed, self.endpoint.wait_idle()).await;
        self.loops.shutdown().await;
    }

    async fn hand_on(&self) {
        let raft = self.cluster.raft();
        let Some(other) = raft.successor() else {
            return;
        };
        if let Err(error) = raft.transfer_leadership(other).await {
            tracing::warn!(%error, to = %other, "leadership was not transferred");
        }
    }
}

/// Waits for a step of the server's end, which goes on without it where it takes too long.
async fn end(deadline: Instant, step: &str, done: impl Future<Output = ()>) {
    let begun = Instant::now();
    if tokio::time::timeout_at(deadline, done).await.is_err() {
        let waited = begun.elapsed();
        tracing::warn!(?waited, "the server ends without waiting longer for {step}");
    }
}

/// Begins what the server does by itself and for others. Answers what the leader's loop tells.
fn begin(
    loops: &mut Loops,
    config: &Arc<Config>,
    ground: &Ground,
    cluster: &Cluster,
    (gateway, keks): (&Arc<Gateway>, &KekService),
    updates: CoalescerLoop,
) -> watch::Receiver<LeadingStats> {
    let (heard, heard_receiver) = mpsc::channel::<HeardReport>(REPORTS_MAX);
    let (stats_sender, stats) = watch::channel(LeadingStats::default());
    let doors = Doors {
        region: ground.endpoint.region().clone(),
        raft: cluster.raft().clone(),
        gateway: Arc::clone(gateway),
        forward: Forward::new(
            cluster.clone(),
            (Arc::clone(gateway), keks.clone()),
            heard.clone(),
            Arc::clone(config),
        ),
    };
    let listener = ground.endpoint.listen();
    let doorway = listener.doorway().clone();
    gateway.admission().set_doorway(doorway);
    let accepting = accept(listener, doors);
    loops.spawn("the accept loop for QUIC", accepting);
    loops.spawn("the update coalescer", updates.run());
    let led_for = LedFor::unknown();
    let reporting = liveness::report(Arc::clone(gateway), heard, led_for.clone());
    loops.spawn("the liveness reporter", reporting);
    let probing = lateness::probe(Arc::clone(gateway), ground.endpoint.clone());
    loops.spawn("the probe of this server's lateness", probing);
    let telling = admission::tell(Arc::clone(gateway));
    loops.spawn("the log of how nodes come in", telling);
    let settings = leading_config(config, ground.schedulers);
    let leading = leading::run(
        cluster.clone(),
        settings,
        heard_receiver,
        stats_sender,
        led_for,
    );
    loops.spawn("the leader's loop", leading);
    let keyring = keyring::run(keks.clone(), cluster.clone());
    loops.spawn("the keyring", keyring);
    let rotation = keyring::rotation::run(keks.clone(), cluster.clone(), config.root_keys);
    loops.spawn("the life of root keys", rotation);
    belong(loops, cluster, config);
    stats
}

/// Streams that a node may have open at a time: those of its session are four, and what it tells of
/// old events has one each time. Servers may have more.
const NODE_STREAMS_MAX: u32 = 16;

/// Where nodes and the other servers come in.
fn bind(config: &Config, identity: &Identity) -> anyhow::Result<Endpoint> {
    Endpoint::bind(&EndpointConfig {
        listen: config.quic_listen,
        identity: identity.clone(),
        limits: Limits {
            streams_max: NODE_STREAMS_MAX,
            ..Limits::default()
        },
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
async fn open_log(config: &Config, ground: &Ground, info: ServerInfo) -> anyhow::Result<Cluster> {
    let pool = Pool::new(ground.endpoint.clone());
    let (machine, hub) = StateMachine::new();
    let directory = config.data_dir.join("raft");
    let (disk, settings) = (Arc::clone(&ground.disk), raft_config(config));
    let raft = Raft::open_on(disk, settings, &directory, machine, pool.clone(), info)
        .await
        .with_context(|| format!("cannot open the log in {}", directory.display()))?;
    let access = Arc::new(Access::planted_with(config.acl_enabled, ground.planted));
    access.configure(config);
    Ok(Cluster::new(
        raft,
        hub,
        pool,
        Arc::clone(&ground.clock),
        access,
    ))
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
            tracing::info!("joined the cluster");
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

fn leading_config(config: &Config, schedulers: Schedulers) -> LeadingConfig {
    LeadingConfig {
        silence: config.liveness.silence,
        takeover_extra: config.liveness.takeover_extra,
        gc: GcThresholds {
            evals: config.gc.evals,
            jobs: config.gc.jobs,
            nodes: config.gc.nodes,
            deployments: config.gc.deployments,
        },
        schedulers,
    }
}
