//! Puts the node together: host, identity, journal, keeper, core, sessions; and takes it apart
//! again without touching a task.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use isolation::cgroup::{CgroupError, Hierarchy, SUPERVISOR, TASKS};
use noded_core::event::KeptRun;
use noded_core::settings::Reconfigured;
use noded_core::{BootId, NodeCore, Settings};
use noded_keeper::client::Launch;
use noded_keeper::paths::RuntimePaths;
use parking_lot::Mutex;
use protocol_model::{AllocId, NodeId};
use protocol_transport::{BindError, Endpoint, EndpointConfig, Identity, Limits, Role};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

use crate::alloc_dir::{AllocDirError, AllocRoot};
use crate::calls::CallServer;
use crate::clock::{Clock, HostClock};
use crate::config::{Config, LiveConfig};
use crate::custody::{CustodyError, NodeLock};
use crate::data_dir::{self, DataDirError};
use crate::disk_watch;
use crate::executor::{Executor, HostParts, SandboxStore};
use crate::file_io::FileIo;
use crate::fingerprint::{HostError, fingerprint, last, refresh, runtime};
use crate::identities::{IdentityService, KeptFiles};
use crate::identity::{self, IdentityError, NodeIdentity};
use crate::input::Input;
use crate::jail::{Jail, JailOpenError};
use crate::journal::{Journal, JournalError};
use crate::keeper_events;
use crate::keeper_link::{self, LinkError};
use crate::keys::{self, KeyStore};
use crate::metadata::MetadataStore;
use crate::networks::{self, Availability, Networks};
use crate::oom_watch;
use crate::queries::Queries;
use crate::reach::Reach;
use crate::session::SessionContext;
use crate::shell::{INPUTS_MAX, Shell, ShellError};
use crate::task_api::TaskApi;
use crate::template_watch::look_at_files;
use crate::upkeep::{Caretaker, Surroundings};

/// How long servers may take to hear that we go; a dead one never does. The message is sent at
/// once, and each moment of a restart is one of the 2.6 s after which a node expires.
const GOODBYE_MAX: Duration = Duration::from_millis(300);

/// Why noded could not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The host cannot be a node.
    #[error("this host cannot be a node")]
    Host(#[source] HostError),
    /// The node's own identity.
    #[error("the node's identity")]
    Identity(#[source] IdentityError),
    /// The data directory is not ours alone.
    #[error("the data directory")]
    DataDir(#[source] DataDirError),
    /// Another noded, or no lock.
    #[error("the node's data directory")]
    Lock(#[source] CustodyError),
    /// Its certificate.
    #[error("the node's certificate")]
    Certificate(#[source] protocol_transport::IdentityError),
    /// Its certificate is not a node's.
    #[error("{} is the certificate of a {role}, not of a node", .path.display())]
    NotANode {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        role: Role,
    },
    /// The journal.
    #[error("the journal")]
    Journal(#[source] JournalError),
    /// The directory of allocations.
    #[error("the directory of allocations")]
    Allocs(#[source] AllocDirError),
    /// Our cgroups.
    #[error("the cgroup of tasks")]
    Cgroup(#[source] CgroupError),
    /// The directory for identities.
    #[error("the node's directory {}", .path.display())]
    NodeDir {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The directory for sandboxes.
    #[error("the runtime directory {}", .path.display())]
    RunDir {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The addresses of allocations' networks.
    #[error("the subnet of allocations")]
    Subnet(#[source] netns::LayoutError),
    /// The children that handle foreign bytes.
    #[error("noded-jail")]
    Jail(#[source] JailOpenError),
    /// keeper.
    #[error("keeper")]
    Keeper(#[source] LinkError),
    /// The thread that serves the sockets of tasks.
    #[error("the task-api thread")]
    TaskApi(#[source] std::io::Error),
    /// The thread that reads files.
    #[error("the io thread")]
    FileIo(#[source] std::io::Error),
    /// The UDP socket.
    #[error("the node's socket")]
    Bind(#[source] BindError),
    /// The loop.
    #[error("the node's loop")]
    Shell(#[source] ShellError),
}

/// How to start keeper and pump where systemd does not.
pub fn launch(config: &Config) -> Result<Launch, DaemonError> {
    let mount = isolation::cgroup::find_mount()
        .map_err(|error| DaemonError::Host(HostError::NoCgroup(error.to_string())))?;
    let base = mount.path.join(&config.cgroup_base);
    Ok(Launch {
        starter: config.keeper_starter,
        program: config.keeper_binary.clone(),
        paths: RuntimePaths::new(&config.run_dir),
        cgroup_base: base.join(TASKS),
        supervisor_cgroup: Some(base.join(SUPERVISOR)),
    })
}

/// What arrives from outside while a node runs.
#[derive(Debug)]
pub struct Signals {
    /// End; tasks go on.
    pub stop: watch::Receiver<bool>,
    /// Read the configuration again.
    pub reload: mpsc::Receiver<()>,
}

/// Runs a node with the configuration of the file `path` until it is told to stop.
///
/// # Errors
/// Where it cannot start or go on; tasks are never touched by that.
pub async fn run(
    config: Config,
    path: PathBuf,
    signals: Signals,
    surroundings: Arc<dyn Surroundings>,
) -> Result<(), DaemonError> {
    let Signals { stop, reload } = signals;
    let live = LiveConfig::new(config);
    let config = live.now();
    data_dir::prepare(&config).map_err(DaemonError::DataDir)?;
    let allocs = AllocRoot::open(&config.alloc_root()).map_err(DaemonError::Allocs)?;
    let identity =
        NodeIdentity::load_or_create(&config.node_dir()).map_err(DaemonError::Identity)?;
    let _lock = NodeLock::take(&config.node_dir()).map_err(DaemonError::Lock)?;
    drop_staging(&allocs);
    let boot_id = BootId(identity::boot_id().map_err(DaemonError::Identity)?);
    let io = FileIo::start().map_err(DaemonError::FileIo)?;
    // Before looking around: a cgroup that keeper made has no controller until it is given some.
    let hierarchy = open_cgroups(&config.cgroup_base)?;
    let networks = open_networks(&config, &identity)?;
    let bridge = networks.availability();
    let metadata = Arc::new(MetadataStore::open(&config.node_dir(), &config.meta));
    let found = look_around(&config, &identity, &io, (&bridge, &metadata))?;
    let endpoint = bind(&config)?;

    let (inputs, received) = mpsc::channel(INPUTS_MAX);
    let journal_news = Arc::new(Notify::new());
    let (journal, restored) = open_journal(&config.node_dir(), Arc::clone(&journal_news))?;

    let seed = identity::random().map_err(DaemonError::Identity)?;
    let tokens = TokenParts::open(&config, identity.id, (boot_id, seed));
    let (queries, keys) = (Arc::clone(&tokens.queries), Arc::clone(&tokens.keys));
    let own = (allocs, hierarchy, networks, tokens);
    let (executor, kept) = open_executor(&live, own, &inputs).await?;
    let node = first_facts(&config, found, &restored);
    let _watches = watch_host(&executor, &node, &inputs);
    let engine = io.engine();
    let of_calls = (io, inputs.clone(), Arc::clone(&metadata));
    let calls = CallServer::new(Arc::clone(&executor), of_calls);
    let reach = reach(&endpoint, &live, calls);
    let session = Arc::new(SessionContext {
        outside: Arc::<Reach>::clone(&reach),
        identity: identity.clone(),
        boot_id: boot_id.0,
        facts: Mutex::new(Arc::clone(&node)),
        inputs,
        queries,
    });
    executor.task_api.forward(Arc::downgrade(&session));
    let own = (bridge, metadata);
    let caretaker = Caretaker::new(&reach, &session, path, engine, own, seed);
    let settings = settings(&config, seed);
    log_start(&identity, &config, &restored, boot_id);
    let core = NodeCore::new(settings, node, restored, kept, boot_id, HostClock.now());
    let _holding = take_up(&executor, &core).await;
    let _questions = ask_servers(&executor, &core, keys);
    let shell = Shell {
        core,
        clock: Arc::new(HostClock),
        journal: Box::new(journal),
        journal_news,
        hands: executor,
        session,
        configured: config.servers.clone(),
        inputs: received,
        measure: Arc::clone(&caretaker.measure),
    };
    surroundings.ready();
    let caretaker = tokio::spawn(caretaker.run(reload, surroundings));
    let ended = shell.run(stop).await.map_err(DaemonError::Shell);
    caretaker.abort();
    say_goodbye(&endpoint).await;
    ended
}

/// The way to servers, and theirs to us.
fn reach(endpoint: &Endpoint, config: &LiveConfig, calls: CallServer) -> Arc<Reach> {
    Arc::new(Reach {
        endpoint: endpoint.clone(),
        config: config.clone(),
        calls: Arc::new(calls),
    })
}

/// Goes on with the networks and sockets of the allocations that the journal has; dropping the
/// answer ends keeper's custody of new sockets.
async fn take_up(executor: &Arc<Executor>, core: &NodeCore) -> JoinSet<()> {
    warn_of_lost_specs(core);
    take_up_networks(&executor.networks, core);
    executor.take_up_sockets(core).await
}

/// Starts to look at what tasks use, and at what other programs may change; dropping the answer
/// ends it.
fn watch_host(
    executor: &Arc<Executor>,
    node: &protocol_model::Node,
    inputs: &mpsc::Sender<Input>,
) -> JoinSet<()> {
    executor.count_cores(node);
    let mut watches = JoinSet::new();
    watches.spawn(oom_watch::watch(Arc::clone(executor), inputs.clone()));
    watches.spawn(disk_watch::watch(Arc::clone(executor), inputs.clone()));
    watches.spawn(look_at_files(Arc::downgrade(executor), inputs.clone()));
    watches.spawn(networks::look_after(Arc::clone(executor)));
    watches
}

fn log_start(
    identity: &NodeIdentity,
    config: &Config,
    restored: &noded_core::journal::RestoredNode,
    boot_id: BootId,
) {
    tracing::info!(
        node = %identity.id,
        name = %config.name,
        restored = restored.allocs.len(),
        rebooted = restored.boot != Some(boot_id),
        "noded starts"
    );
}

/// Starts to ask servers for identities and keys; dropping the answer ends it.
fn ask_servers(executor: &Arc<Executor>, core: &NodeCore, keys: Arc<KeyStore>) -> JoinSet<()> {
    let identities = Arc::clone(&executor.identities);
    let without_spec: BTreeSet<AllocId> = core.allocs_without_spec().collect();
    identities.retain(|alloc| core.alloc(alloc).is_some() || without_spec.contains(&alloc));
    let queries = Arc::clone(identities.queries());
    let mut questions = JoinSet::new();
    questions.spawn(keys::follow(queries, keys));
    questions.spawn(identities.run(Arc::<Executor>::clone(executor)));
    questions
}

/// An earlier noded may have ended while it fetched artifacts.
fn drop_staging(allocs: &AllocRoot) {
    if let Err(error) = allocs.drop_all_staging() {
        let error = protocol_error_chain::chain(&error);
        tracing::warn!(%error, "staging directories of artifacts are left");
    }
}

/// The parts of the service of identities that exist before keeper is asked.
struct TokenParts {
    queries: Arc<Queries>,
    keys: Arc<KeyStore>,
    boot_id: BootId,
    seed: [u8; 16],
}

impl TokenParts {
    fn open(config: &Config, node: NodeId, (boot_id, seed): (BootId, [u8; 16])) -> Self {
        Self {
            queries: Arc::new(Queries::new(node)),
            keys: Arc::new(KeyStore::open(&config.node_dir())),
            boot_id,
            seed,
        }
    }
}

/// keeper and whoever asks it; and what it has in custody.
async fn open_executor(
    config: &LiveConfig,
    own: (AllocRoot, Hierarchy, Networks, TokenParts),
    inputs: &mpsc::Sender<Input>,
) -> Result<(Arc<Executor>, Vec<KeptRun>), DaemonError> {
    let (allocs, hierarchy, networks, tokens) = own;
    let now = config.now();
    let launch = launch(&now)?;
    let jail = Jail::open(&now.jail_binary, &hierarchy).map_err(DaemonError::Jail)?;
    let opened = keeper_link::open(&launch)
        .await
        .map_err(DaemonError::Keeper)?;
    let (mut opened, held) = keeper_link::take_sockets(opened)
        .await
        .map_err(DaemonError::Keeper)?;
    let listing = std::mem::take(&mut opened.listing);
    let kept = listing.iter().filter_map(keeper_events::kept_run).collect();
    // keeper lives in the runtime directory, so that is there now.
    let tasks = now.cgroup_base.join(TASKS).display().to_string();
    let keys = Arc::clone(&tokens.keys);
    let task_api =
        TaskApi::start(now.task_api, tasks, inputs.clone(), keys).map_err(DaemonError::TaskApi)?;
    task_api.inherit(held);
    let sandboxes = SandboxStore::open(&now.run_dir).map_err(|source| DaemonError::RunDir {
        path: now.run_dir.clone(),
        source,
    })?;
    let identities = open_identities(&now, tokens, inputs)?;
    let keeper = keeper_link::start(launch, opened, keeper_inputs(inputs.clone()));
    let parts = HostParts {
        allocs,
        hierarchy,
        keeper,
        sandboxes,
        networks,
        jail,
        task_api,
        identities,
    };
    let executor = Executor::new(config.clone(), parts, inputs);
    Ok((Arc::new(executor), kept))
}

/// Identities of tasks, with the tokens that an earlier noded of this boot held.
fn open_identities(
    config: &Config,
    tokens: TokenParts,
    inputs: &mpsc::Sender<Input>,
) -> Result<Arc<IdentityService>, DaemonError> {
    let TokenParts {
        queries,
        keys: _,
        boot_id,
        seed,
    } = tokens;
    let kept = KeptFiles::open(&config.run_dir, boot_id).map_err(|source| DaemonError::RunDir {
        path: config.run_dir.clone(),
        source,
    })?;
    let kept = kept
        .with_disk(&config.node_dir())
        .map_err(|source| DaemonError::NodeDir {
            path: config.node_dir(),
            source,
        })?;
    let seed = seed
        .iter()
        .fold(0_u64, |seed, byte| seed.rotate_left(8) ^ u64::from(*byte));
    Ok(Arc::new(IdentityService::new(
        queries,
        Arc::new(HostClock),
        inputs.clone(),
        Some(kept),
        seed,
    )))
}

/// Networks of allocations, and whether they can have addresses of their own.
fn open_networks(config: &Config, identity: &NodeIdentity) -> Result<Networks, DaemonError> {
    let bridge = networks::open(config.network, identity.id).map_err(DaemonError::Subnet)?;
    Ok(Networks::below(&config.run_dir, Some(bridge)))
}

fn warn_of_lost_specs(core: &NodeCore) {
    let allocs = core.allocs_without_spec().count();
    if allocs > 0 {
        tracing::warn!(
            allocs,
            "the journal has lost job specifications; their tasks go on, and a server is asked for \
             them"
        );
    }
}

/// Networks of allocations that are not known any more go; the others have exactly their ports.
fn take_up_networks(networks: &Networks, core: &NodeCore) {
    let with_spec = core
        .allocs()
        .map(|runner| (runner.spec().id(), Some(runner.spec().as_ref())));
    let without = core.allocs_without_spec().map(|alloc| (alloc, None));
    networks.take_up(with_spec.chain(without));
}

/// Servers hear at once that we go, instead of waiting for silence.
async fn say_goodbye(endpoint: &Endpoint) {
    endpoint.close();
    let goodbye = tokio::time::timeout(GOODBYE_MAX, endpoint.wait_idle()).await;
    if goodbye.is_err() {
        tracing::debug!("a server did not hear that we go");
    }
}

fn open_cgroups(base: &Path) -> Result<Hierarchy, DaemonError> {
    if !rustix::process::geteuid().is_root() {
        return Err(DaemonError::Host(HostError::NotRoot));
    }
    Hierarchy::open(base).map_err(|error| match error {
        CgroupError::Mount(error) => DaemonError::Host(HostError::NoCgroup(error.to_string())),
        error => DaemonError::Cgroup(error),
    })
}

/// What the host is; what it cannot enforce is said once.
fn look_around(
    config: &Config,
    identity: &NodeIdentity,
    io: &FileIo,
    (bridge, metadata): (&Availability, &MetadataStore),
) -> Result<protocol_model::Node, DaemonError> {
    let found =
        fingerprint(config, identity, io.engine(), bridge, metadata).map_err(DaemonError::Host)?;
    if let Some(reason) = found.enforcement.cgroup.reason() {
        tracing::warn!("{reason}");
    }
    runtime::tell(&config.run_dir, None, &found.node);
    Ok(found.node)
}

/// What the node says of itself until it looks at its host again.
fn first_facts(
    config: &Config,
    found: protocol_model::Node,
    restored: &noded_core::journal::RestoredNode,
) -> Arc<protocol_model::Node> {
    let directory = config.node_dir();
    let before = last::load(&directory, found.id);
    let facts = refresh::begin(before.as_ref(), found, held_disk_mib(restored));
    if before.as_ref() != Some(&facts) {
        last::save(&directory, &facts);
    }
    Arc::new(facts)
}

fn open_journal(
    directory: &Path,
    news: Arc<Notify>,
) -> Result<(Journal, noded_core::journal::RestoredNode), DaemonError> {
    Journal::open(directory, move || news.notify_one()).map_err(DaemonError::Journal)
}

fn keeper_inputs(inputs: mpsc::Sender<Input>) -> mpsc::Sender<keeper_link::KeeperNews> {
    let (news, mut received) = mpsc::channel(64);
    tokio::spawn(async move {
        while let Some(news) = received.recv().await {
            if inputs.send(Input::Keeper(news)).await.is_err() {
                return;
            }
        }
    });
    news
}

fn bind(config: &Config) -> Result<Endpoint, DaemonError> {
    let tls = &config.tls;
    let identity = Identity::load(&tls.ca_file, &tls.cert_file, &tls.key_file)
        .map_err(DaemonError::Certificate)?;
    if identity.own().role != Role::Node {
        return Err(DaemonError::NotANode {
            path: tls.cert_file.clone(),
            role: identity.own().role,
        });
    }
    // One socket for all servers; only one of IPv6 reaches both kinds.
    let six = config.servers.iter().any(|server| server.starts_with('['));
    let any = if six {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    } else {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    };
    let listen = SocketAddr::new(any, 0);
    let endpoint = EndpointConfig {
        listen,
        identity,
        limits: Limits::default(),
    };
    Endpoint::bind(&endpoint).map_err(DaemonError::Bind)
}

/// What live allocations of an earlier life may use of the disk.
fn held_disk_mib(restored: &noded_core::journal::RestoredNode) -> i64 {
    let live = restored.allocs.values().map(|it| &it.alloc);
    live.filter(|alloc| !alloc.server_terminal() && !alloc.client_terminal())
        .map(|alloc| alloc.allocated_resources.shared.disk_mb)
        .fold(0, i64::saturating_add)
}

fn settings(config: &Config, seed: [u8; 16]) -> Settings {
    let mut settings = Settings::new(config.alloc_root().to_string_lossy().into_owned(), seed);
    settings.region = config.region.as_str().to_owned();
    settings.task_api = config.task_api.enabled;
    settings.parent_cgroup = config.cgroup_base.display().to_string();
    let Reconfigured {
        drivers,
        kill_timeout_max,
        terminal_allocs_max,
    } = reconfigured(config);
    settings.drivers = drivers;
    settings.kill_timeout_max = kill_timeout_max;
    settings.terminal_allocs_max = terminal_allocs_max;
    settings
}

/// The part of the core's settings that a reload may change.
pub(crate) fn reconfigured(config: &Config) -> Reconfigured {
    Reconfigured {
        drivers: config.drivers.enabled(),
        kill_timeout_max: config.kill_timeout_max,
        terminal_allocs_max: config.upkeep.gc_max_allocs,
    }
}
