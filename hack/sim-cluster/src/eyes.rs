//! Whoever looks on: sees what happens on every machine, as it happens, and holds it against what
//! must be true. Nothing that it does changes a run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use controlplane_raft::RaftStatus;
use controlplane_server::cluster::Cluster;
use controlplane_state::Snapshot;
use hack_nodesim::facts;
use hack_nodesim::tasks::{TaskCounts, Tasks};
use hack_sim::judges::Leased;
use noded_core::{RunKey, Watermark};
use parking_lot::Mutex;
use protocol_model::{AllocId, Allocation, JobKey, NodeId, NodeStatus};
use tokio::time::Instant;

use crate::invariants::{self, Invariant};
use crate::net::Machine;
use crate::schedule::Scenario;
use crate::tokens::{Standing, TokenNumber, TokenUse, Tokens};

/// Lines of a trace that are kept.
const TRACE_LINES_MAX: usize = 20_000;

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Observation<'a> {
    /// A server's state became another one. Several entries may lie between the two.
    Applied {
        server: Machine,
        before: &'a Snapshot,
        after: &'a Snapshot,
    },
    /// A server's part in the log became another one.
    Standing {
        server: Machine,
        status: &'a RaftStatus,
    },
    /// A node begins a run.
    Spawned { node: Machine, run: &'a RunKey },
    /// A node asks a run to end.
    StopAsked { node: Machine, run: &'a RunKey },
    /// A node journals how far it has been told.
    WatermarkMoved { node: Machine, watermark: Watermark },
    /// A daemon started, and this is what its journal says it had been told.
    DaemonStarted {
        node: Machine,
        boot: [u8; 16],
        watermark: Watermark,
    },
    /// A consistent read was answered.
    Read {
        server: Machine,
        /// The newest index that had been acknowledged when it was asked for.
        acknowledged: u64,
        /// The index that was answered.
        index: u64,
    },
    /// A job was read through the API.
    JobRead {
        server: Machine,
        job: &'a JobKey,
        /// The newest modify index that had been acknowledged when it was asked for.
        acknowledged: u64,
        /// The one that was answered; `None` = there is no such job.
        modify_index: Option<u64>,
    },
    /// A node pool is asked for with a token.
    PoolAsked {
        token: TokenNumber,
        /// How the token stood then.
        asked: Standing,
        pool: &'a str,
    },
    /// A request with a token was answered.
    TokenUsed(TokenUse),
    /// A query that waited with a token was answered, and not with 403.
    WaitAnswered {
        server: Machine,
        token: TokenNumber,
        /// The index of the server's state then.
        applied: u64,
    },
    /// A while is over.
    Look,
    /// The healed cluster has come to rest.
    Rested,
}

/// What did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub invariant: &'static str,
    pub source: &'static str,
    pub what: String,
    pub at: Duration,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            invariant,
            source,
            what,
            at,
        } = self;
        writeln!(f, "{invariant} does not hold: {what}")?;
        writeln!(f, "  promised in: {source}")?;
        write!(f, "  at {:.3} s", at.as_secs_f64())
    }
}

/// What operators were promised.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    /// Per job, the newest modify index that was acknowledged.
    pub acknowledged: BTreeMap<JobKey, u64>,
    /// The newest index of any change that was acknowledged.
    pub index: u64,
}

/// See the top of this file.
#[derive(Debug)]
pub struct Eyes {
    begun: Instant,
    view: Mutex<View>,
    judging: Mutex<Judging>,
    trace: Mutex<Trace>,
}

/// What invariants may look at.
#[derive(Debug, Clone)]
pub struct View {
    pub scenario: Scenario,
    /// Per server, the process that runs.
    pub servers: Vec<Option<Cluster>>,
    /// The tasks of every host that is switched on.
    pub hosts: BTreeMap<Machine, Arc<Tasks>>,
    pub ids: BTreeMap<NodeId, Machine>,
    /// The newest state that any server ever had.
    pub newest: Snapshot,
    pub promises: Promises,
    pub tokens: Tokens,
    /// Whether faults are over.
    pub healed: bool,
    /// Nodes without a daemon, and since when.
    pub daemonless: BTreeMap<Machine, Instant>,
    /// Nodes with a daemon from which nothing gets to any server that runs, and since when.
    pub cut_off: BTreeMap<Machine, Instant>,
    /// What the tasks of all hosts did.
    pub tasks: Arc<TaskCounts>,
    /// Allocations that began to run in the place of one whose lease ran out unheard.
    pub followed_unheard: BTreeSet<AllocId>,
}

#[derive(Debug)]
struct Judging {
    invariants: Vec<Box<dyn Invariant>>,
    failure: Option<Failure>,
}

/// The last things that happened.
#[derive(Debug, Default)]
struct Trace {
    on: bool,
    lines: VecDeque<String>,
}

impl View {
    /// The newest state that a running server has, of each.
    pub fn states(&self) -> impl Iterator<Item = (Machine, Snapshot)> + '_ {
        let servers = self.servers.iter().zip(0..);
        servers.filter_map(|(cluster, machine)| {
            let cluster = cluster.as_ref()?;
            Some((machine, cluster.snapshot()))
        })
    }

    /// Whether an allocation's group stops itself when its node is not heard.
    pub fn is_leased(&self, alloc: &Allocation) -> bool {
        let job = self.newest.job_of_alloc(alloc);
        let group = job.as_ref().and_then(|it| it.task_group(&alloc.task_group));
        group.is_some_and(|group| group.lease_term().is_some())
    }

    /// Tells a judge what there is of groups that stop themselves.
    pub fn teach_leased(&self, judge: &mut Leased) {
        let leased = self.newest.allocs().filter(|alloc| self.is_leased(alloc));
        leased.for_each(|alloc| judge.placed(alloc.id, &alloc.name));
    }

    /// Whether a run is of an allocation that takes the place of one whose lease ran out, while
    /// nobody hears of the node that had it.
    fn follows_unheard(&self, run: &RunKey) -> bool {
        let alloc = self.newest.alloc(run.alloc);
        let previous = alloc.and_then(|alloc| alloc.previous_allocation);
        let Some(previous) = previous.filter(|it| self.tasks.expired().contains(it)) else {
            return false;
        };
        let previous = self.newest.alloc(previous);
        let node = previous.and_then(|previous| self.newest.node(previous.node_id));
        node.is_some_and(|record| match record.node.status {
            NodeStatus::Down | NodeStatus::Disconnected => true,
            NodeStatus::Ready | NodeStatus::Initializing => false,
        })
    }

    /// The runs that go on, everywhere.
    pub fn running(&self) -> impl Iterator<Item = (Machine, RunKey)> + '_ {
        self.hosts
            .iter()
            .flat_map(|(machine, tasks)| tasks.running().into_iter().map(|run| (*machine, run)))
    }
}

impl Eyes {
    /// Eyes for a run that begins now.
    pub fn new(scenario: Scenario, servers: u8, nodes: u8, seed: u64, traced: bool) -> Self {
        let machines = servers..servers + nodes;
        let view = View {
            scenario,
            servers: (0..servers).map(|_| None).collect(),
            hosts: BTreeMap::new(),
            ids: machines
                .map(|machine| (facts::identity(seed, machine.into()).id, machine))
                .collect(),
            newest: Snapshot::default(),
            promises: Promises::default(),
            tokens: Tokens::default(),
            healed: false,
            daemonless: BTreeMap::new(),
            cut_off: BTreeMap::new(),
            tasks: Arc::default(),
            followed_unheard: BTreeSet::new(),
        };
        Self {
            begun: Instant::now(),
            view: Mutex::new(view),
            judging: Mutex::new(Judging {
                invariants: invariants::all(),
                failure: None,
            }),
            trace: Mutex::new(Trace {
                on: traced,
                lines: VecDeque::new(),
            }),
        }
    }

    /// Looks at something that happened.
    pub fn see(&self, seen: &Observation<'_>) {
        self.note_seen(seen);
        if let Observation::Applied { after, .. } = seen {
            let mut view = self.view.lock();
            if view.newest.index() < after.index() {
                view.newest = (*after).clone();
            }
        }
        if let Observation::Spawned { run, .. } = seen {
            let mut view = self.view.lock();
            if view.follows_unheard(run) {
                view.followed_unheard.insert(run.alloc);
            }
        }
        let view = self.view();
        let mut judging = self.judging.lock();
        let Judging {
            invariants,
            failure,
        } = &mut *judging;
        if failure.is_some() {
            return;
        }
        for invariant in invariants {
            if let Err(what) = invariant.on(seen, &view) {
                *failure = Some(Failure {
                    invariant: invariant.name(),
                    source: invariant.source(),
                    what,
                    at: self.begun.elapsed(),
                });
                break;
            }
        }
    }

    /// Something did not hold that no observation shows.
    pub fn fail(&self, invariant: &'static str, source: &'static str, what: String) {
        let at = self.begun.elapsed();
        self.judging.lock().failure.get_or_insert(Failure {
            invariant,
            source,
            what,
            at,
        });
    }

    /// What did not hold.
    pub fn failure(&self) -> Option<Failure> {
        self.judging.lock().failure.clone()
    }

    /// What there is to look at now.
    pub fn view(&self) -> View {
        self.view.lock().clone()
    }

    /// How long the run goes on.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// A host was switched on: these are its tasks.
    pub fn host_is_on(&self, machine: Machine, tasks: &Arc<Tasks>) {
        self.view.lock().hosts.insert(machine, Arc::clone(tasks));
    }

    /// Where what tasks do is counted.
    pub fn task_counts(&self) -> Arc<TaskCounts> {
        Arc::clone(&self.view.lock().tasks)
    }

    /// A node's daemon began, or ended.
    pub fn daemon_is_up(&self, machine: Machine, up: bool) {
        let daemonless = &mut self.view.lock().daemonless;
        if up {
            daemonless.remove(&machine);
        } else {
            daemonless.insert(machine, Instant::now());
        }
    }

    /// Something between machines was cut or mended, or a server came or went: these nodes reach
    /// no server now.
    pub fn are_cut_off(&self, machines: &BTreeSet<Machine>) {
        let cut_off = &mut self.view.lock().cut_off;
        cut_off.retain(|machine, _| machines.contains(machine));
        for machine in machines {
            cut_off.entry(*machine).or_insert_with(Instant::now);
        }
    }

    /// A server's process began, or ended.
    pub fn server_is(&self, machine: Machine, cluster: Option<Cluster>) {
        if let Some(slot) = self.view.lock().servers.get_mut(usize::from(machine)) {
            *slot = cluster;
        }
    }

    /// A change was acknowledged.
    pub fn acknowledged(&self, index: u64) {
        let promises = &mut self.view.lock().promises;
        promises.index = promises.index.max(index);
    }

    /// A registration was acknowledged.
    pub fn promised(&self, key: JobKey, modify_index: u64) {
        let mut view = self.view.lock();
        let known = view.promises.acknowledged.entry(key).or_default();
        *known = (*known).max(modify_index);
    }

    /// A token was acknowledged, or its revocation began or was acknowledged.
    pub fn token_stands(&self, token: TokenNumber, standing: Standing) {
        self.note(|| format!("token {token}: {standing:?}"));
        self.view.lock().tokens.standing.insert(token, standing);
    }

    /// A query with a token waits on a server, or no longer.
    pub fn token_waits(&self, token: TokenNumber, server: Machine, waits: bool) {
        let waiting = &mut self.view.lock().tokens.waiting;
        match waits {
            true => waiting.insert((token, server)),
            false => waiting.remove(&(token, server)),
        };
    }

    /// Faults are over.
    pub fn healed(&self) {
        self.view.lock().healed = true;
    }

    /// Adds a line to the trace.
    pub fn note(&self, line: impl FnOnce() -> String) {
        let mut trace = self.trace.lock();
        if !trace.on {
            return;
        }
        if trace.lines.len() >= TRACE_LINES_MAX {
            trace.lines.pop_front();
        }
        let at = self.begun.elapsed().as_secs_f64();
        let line = format!("{at:>9.3} {}", line());
        trace.lines.push_back(line);
    }

    /// The last lines of the trace.
    pub fn trace(&self, lines: usize) -> Vec<String> {
        let trace = self.trace.lock();
        let skip = trace.lines.len().saturating_sub(lines);
        trace.lines.iter().skip(skip).cloned().collect()
    }

    fn note_seen(&self, seen: &Observation<'_>) {
        match seen {
            Observation::Applied { .. } | Observation::Look => {}
            Observation::Standing { server, status } => self.note(|| {
                let RaftStatus { role, term, .. } = status;
                format!("s{server} is {role:?} in term {term}")
            }),
            Observation::Spawned { node, run } => self.note(|| format!("n{node} starts {run}")),
            Observation::StopAsked { node, run } => self.note(|| format!("n{node} ends {run}")),
            Observation::WatermarkMoved { node, watermark } => {
                self.note(|| format!("n{node} was told up to {}", watermark.index));
            }
            Observation::DaemonStarted {
                node, watermark, ..
            } => self.note(|| format!("n{node} has a daemon, told up to {}", watermark.index)),
            Observation::Read { server, index, .. } => {
                self.note(|| format!("s{server} is read at {index}"));
            }
            Observation::JobRead {
                server,
                job,
                modify_index,
                ..
            } => self.note(|| format!("s{server} has {job} at {modify_index:?}")),
            Observation::PoolAsked { .. } => {}
            Observation::TokenUsed(used) => self.note(|| {
                let TokenUse { server, token, .. } = used;
                let answer = if used.served { "serves" } else { "refuses" };
                let what = used.what;
                format!(
                    "s{server} {answer} a {what:?} with token {token}, {:?}",
                    used.asked
                )
            }),
            Observation::WaitAnswered { server, token, .. } => {
                self.note(|| format!("s{server} answers a query that waited with token {token}"));
            }
            Observation::Rested => self.note(|| "at rest".to_owned()),
        }
    }
}

/// Follows what a server applies and how it stands, for as long as its process runs.
pub async fn follow(eyes: Arc<Eyes>, server: Machine, cluster: Cluster) {
    let mut states = cluster.hub().watch();
    let mut standing = cluster.watch_status();
    let mut before = states.borrow_and_update().clone();
    loop {
        let status = standing.borrow_and_update().clone();
        eyes.see(&Observation::Standing {
            server,
            status: &status,
        });
        loop {
            tokio::select! {
                changed = states.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let after = states.borrow_and_update().clone();
                    let (before, after) = (std::mem::replace(&mut before, after.clone()), after);
                    let (before, after) = (&before, &after);
                    eyes.see(&Observation::Applied { server, before, after });
                }
                changed = standing.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    break;
                }
            }
        }
    }
}
