//! What a run is made of, as data: its size, its weather, its faults and its operators' wishes. All
//! of it follows from the seed, and any part can be left out again to make a failure smaller.

pub mod fault;
pub mod jobs;
pub mod keys;
pub mod op;
pub mod storm;

use std::time::Duration;

use controlplane_leader::keys::RootKeyConfig;

use crate::mutant::Mutant;
use crate::rng::Rng;
use crate::time::{Nanos, SECOND};
use fault::{Family, Fault};
use op::Op;
use storm::Storm;

/// Streams of chance.
const STREAM_SHAPE: u64 = 1;
const STREAM_FAULTS: u64 = 2;
const STREAM_OPS: u64 = 3;
const STREAM_SERVERS: u64 = 4;
const STREAM_SESSION_STORM: u64 = 5;
const STREAM_KEYS: u64 = 6;

/// The state is recounted after every so many commands where nothing else is asked for: a recount
/// costs as much as many commands.
pub const STATE_CHECK_EVERY: u32 = 4;

/// How a run is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Decides everything else.
    pub seed: u64,
    /// How many nodes; `None` = the seed decides.
    pub nodes: Option<u32>,
    /// Which faults.
    pub scenario: Scenario,
    /// How long faults go on, in seconds; `None` = the seed decides.
    pub seconds: Option<u64>,
    /// The most events before the run is ended where it stands.
    pub steps: Option<u64>,
    /// The state is recounted after every so many commands, a large one more rarely.
    /// 1 = after every command, however large it is.
    pub state_check_every: u32,
    /// A planted bug.
    pub mutant: Option<Mutant>,
    /// The only faults to keep, by their number; `None` = all.
    pub keep_faults: Option<Vec<u32>>,
    /// The only operators' wishes to keep; `None` = all.
    pub keep_ops: Option<Vec<u32>>,
}

impl Settings {
    /// A run of `seed` with everything left to it.
    pub fn of(seed: u64) -> Self {
        Self {
            seed,
            nodes: None,
            scenario: Scenario::Storm,
            seconds: None,
            steps: None,
            state_check_every: 1,
            mutant: None,
            keep_faults: None,
            keep_ops: None,
        }
    }
}

/// Which faults there are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub enum Scenario {
    /// Any, as the seed decides.
    Storm,
    /// None: whatever goes wrong is the product's own doing.
    Calm,
    /// A third of the packets lost and 300 ms of jitter, and nothing else.
    Lossy,
    /// All nodes are cut off at once, and come back at once.
    Outage,
    /// One server at a time is killed, cut off from the others or from the nodes.
    OneServer,
    /// Nodes are cut off one by one, jobs without a disconnect window.
    Partition,
    /// Nodes are cut off one by one, jobs with a disconnect window.
    PartitionWindow,
    /// Hosts are switched off, jobs without a disconnect window.
    Shutdown,
    /// Hosts are switched off, jobs with a disconnect window.
    ShutdownWindow,
    /// Leaders change all the time, in the middle of handshakes.
    Leaders,
    /// Sessions change hands while what was said in the last one is on its way: slow logs, leaders
    /// that are cut off, connections that are dropped, daemons that are back at once.
    Handover,
    /// Only the log is to be blamed: commits are late, leaders lose their place or are replaced,
    /// what servers read is stale. Nodes and their connections are well.
    Log,
    /// Servers lag behind the log while sessions move between them: connections are dropped,
    /// leaders are cut off, daemons are back at once.
    Lagging,
    /// Hosts are cut off and switched off and on meanwhile.
    Offline,
    /// Daemons are killed, and their journals damaged meanwhile.
    Damaged,
    /// As a storm, with groups that stop themselves when nobody hears them. No server's clock
    /// jumps: that their leases are over is known by a clock.
    Leased,
    /// As a storm, and new versions of jobs are rolled out a few allocations at a time; some of
    /// them are broken.
    Rolling,
    /// As a rollout, and new versions are tried by canaries: leaders change, nodes come and go, and
    /// operators promote, fail, pause and resume deployments.
    Canary,
    /// As a storm, and operators do not wait: they stop allocations by hand, also silent ones, and
    /// purge nodes, whether these are there or not. No server's clock jumps, for the leases.
    Operators,
    /// As a storm, and jobs are launched by the clock, every few seconds. Servers' clocks jump in
    /// every run.
    Periodic,
    /// Nodes are drained, with and without a deadline: leaders change, nodes come and go.
    Drain,
    /// A parameterized job is dispatched, also twice with one token, and changed meanwhile: leaders
    /// change, nodes come and go.
    Dispatch,
    /// Jobs of three priorities want more than the nodes have: leaders change, nodes come and go.
    Preempt,
    /// Root keys rotate and are removed, also by force, while variables are written: leaders
    /// change, nodes come and go.
    Keys,
    /// Clients contend for one lock: leaders change and are cut off, and the clients' messages are
    /// late and lost.
    Locks,
    /// Disks of a few nodes refuse every write: these go on with their heartbeats, and accept
    /// nothing.
    Stuck,
    /// Processor time counts, and all nodes want a session at once: more than servers can serve.
    SessionStorm,
}

/// Everything that will be done to a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    pub nodes: u32,
    pub servers: u8,
    /// When faults end.
    pub safety_until: Nanos,
    pub faults: Vec<Fault>,
    /// In a session storm: what it is like.
    pub storm: Option<Storm>,
    pub ops: Vec<Op>,
    /// The kinds of jobs in this run.
    pub jobs: Vec<jobs::Kind>,
    /// How long the control plane remembers what is over.
    pub remembers: Duration,
    /// The life of root keys; `None` = the run has none.
    pub keys: Option<RootKeyConfig>,
}

impl Schedule {
    /// What `settings` ask for.
    pub fn of(settings: &Settings) -> Self {
        let mut shape = Rng::new(settings.seed, STREAM_SHAPE);
        let nodes = shape.between(3, 9);
        let mut seconds = shape.between(40, 120);
        if settings.scenario == Scenario::SessionStorm {
            seconds = storm::SECONDS;
        }
        if settings.scenario == Scenario::Stuck {
            // What is not accepted is moved after a minute.
            seconds += 80;
        }
        if settings.scenario == Scenario::Locks {
            // A lock that nobody renews blocks others for 25 s.
            seconds += 180;
        }
        let nodes = match settings.scenario {
            Scenario::SessionStorm => 70 + nodes * 10,
            _ => nodes,
        };
        let nodes = settings
            .nodes
            .unwrap_or_else(|| u32::try_from(nodes).unwrap_or(3));
        let safety_until = settings.seconds.unwrap_or(seconds) * SECOND;
        let servers = servers(settings);
        let jobs = jobs::of(settings.scenario, &mut shape);
        let families = Family::of(settings.scenario, &mut shape);
        // In some runs for longer than any node is away, in some not.
        let remembers = Duration::from_secs(if shape.chance(500) { 15 } else { 60 });
        let size = fault::Size {
            nodes,
            servers,
            until: safety_until,
        };
        let mut rng = Rng::new(settings.seed, STREAM_FAULTS);
        let mut faults = fault::draw(&families, settings.scenario, size, &mut rng);
        let mut rng = Rng::new(settings.seed, STREAM_OPS);
        let mut ops = op::draw(&jobs, settings.scenario, size, &mut rng);
        let mut rng = Rng::new(settings.seed, STREAM_SESSION_STORM);
        let storm = (settings.scenario == Scenario::SessionStorm)
            .then(|| fault::draw_storm(size, &mut rng, &mut faults));
        let mut rng = Rng::new(settings.seed, STREAM_KEYS);
        let keys = (settings.scenario == Scenario::Keys).then(|| keys::config(&mut rng));
        keep(&mut faults, settings.keep_faults.as_deref(), |it| it.number);
        keep(&mut ops, settings.keep_ops.as_deref(), |it| it.number);
        Self {
            nodes,
            servers,
            safety_until,
            faults,
            storm,
            ops,
            jobs,
            remembers,
            keys,
        }
    }
}

/// Three as a rule. Whoever asks for a size asks for what promises with a number are made for.
fn servers(settings: &Settings) -> u8 {
    let mut rng = Rng::new(settings.seed, STREAM_SERVERS);
    let (alone, many) = (rng.chance(100), rng.chance(120));
    let several = matches!(
        settings.scenario,
        Scenario::OneServer
            | Scenario::Leaders
            | Scenario::Handover
            | Scenario::Log
            | Scenario::Lagging
            | Scenario::Locks
            | Scenario::SessionStorm
    );
    match (settings.nodes, alone, many) {
        (Some(_), _, _) | (None, false, false) => 3,
        (None, true, _) if !several => 1,
        (None, _, _) => 5,
    }
}

fn keep<T>(list: &mut Vec<T>, numbers: Option<&[u32]>, number: impl Fn(&T) -> u32) {
    if let Some(numbers) = numbers {
        list.retain(|it| numbers.contains(&number(it)));
    }
}
