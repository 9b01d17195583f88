//! One run: three servers and five nodes in one runtime whose time moves only when nobody has
//! anything to do.
//!
//! ```text
//!   form --> safety: faults and wishes, as the schedule says --> heal --> liveness: come to rest
//! ```
//!
//! A server that fails ends its process, as a supervisor sees it, and is started again.

mod client;
mod doors;
mod faults;
mod http;
mod rest;
mod rounds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hack_sim::rng::Rng;
use tokio::time::{Instant, sleep_until};

use self::client::Clients;
use self::doors::Doors;
use crate::arguments::Replay;
use crate::eyes::{Eyes, Failure, Observation, follow};
use crate::mutant::Mutant;
use crate::net::{Machine, NetCounts, Network};
use crate::node::{self, SimNode};
use crate::panics;
use crate::pki;
use crate::schedule::fault::Fault;
use crate::schedule::op::Op;
use crate::schedule::{NODES, SERVERS, Schedule, Settings};
use crate::server::{self, SimServer};
use crate::time::SimClock;
use crate::watchdog::Watchdog;

/// Streams of chance.
const STREAM_NET: u64 = 10;
const STREAM_MACHINES: u64 = 100;

/// How often everybody is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a supervisor waits before it starts a process again that failed.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// How long the healed cluster may take to come to rest: what is tolerated on a silent node is
/// tolerated for 15 s, what was not accepted is moved after a minute.
const REST_MAX: Duration = Duration::from_secs(150);

/// What became of a run.
#[derive(Debug, Clone)]
pub struct Ended {
    pub failure: Option<Failure>,
    /// How long it was, in virtual time.
    pub lasted: Duration,
    /// How long it took to come to rest.
    pub rested_in: Option<Duration>,
    pub faults: usize,
    pub ops: usize,
    pub packets: NetCounts,
    /// Entries of the log.
    pub entries: u64,
    /// Allocations of which a run ended with its lease, and those that began to run in the place of
    /// one of them while nobody heard its node.
    pub leases_expired: usize,
    pub leases_followed: usize,
    /// Tokens whose revocation was acknowledged.
    pub revoked: usize,
    /// The last things that happened, where they were asked for.
    pub trace: Vec<String>,
}

/// Everybody.
struct World {
    schedule: Schedule,
    mutant: Option<Mutant>,
    watchdog: Watchdog,
    begun: Instant,
    eyes: Arc<Eyes>,
    network: Network,
    servers: Vec<SimServer>,
    nodes: Vec<SimNode>,
    clients: Clients,
    /// The ways to the servers that run.
    doors: Doors,
    /// Faults that are on.
    on: BTreeMap<u32, Fault>,
    /// When processes that failed are started again.
    restarts: BTreeMap<Machine, Instant>,
    /// Servers whose first disk was put aside.
    aside: BTreeSet<Machine>,
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum Due {
    Begin(Fault),
    End(Fault),
    Wish(Op),
}

/// Runs a schedule, to its end or to the first thing that does not hold. Keeps `lines` of a trace.
///
/// # Errors
/// Where the cluster cannot even be put together.
pub fn run(settings: &Settings, lines: usize) -> anyhow::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let replay = Replay(settings).to_string();
    let _noting = panics::begin(replay.clone());
    let watchdog = Watchdog::start(replay)?;
    runtime.block_on(async {
        let mut world = World::new(settings, lines > 0, watchdog)?;
        let rested_in = world.live().await;
        let expired = world.eyes.task_counts().expired().len();
        let followed = world.eyes.view().followed_unheard.len();
        Ok(Ended {
            failure: world.eyes.failure(),
            lasted: world.begun.elapsed(),
            rested_in,
            faults: world.schedule.faults.len(),
            ops: world.schedule.ops.len(),
            packets: world.network.counts(),
            entries: world.eyes.view().newest.index(),
            leases_expired: expired,
            leases_followed: followed,
            revoked: world.eyes.view().tokens.revoked(),
            trace: world.eyes.trace(lines),
        })
    })
}

impl World {
    fn new(settings: &Settings, traced: bool, watchdog: Watchdog) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let pki = pki::shared()?;
        let schedule = Schedule::of(settings);
        let seed = settings.seed;
        let network = Network::new(Rng::new(seed, STREAM_NET));
        let eyes = Eyes::new(settings.scenario, SERVERS, NODES, seed, traced);
        let eyes = Arc::new(eyes);
        let chance = |machine: Machine| Rng::new(seed, STREAM_MACHINES + u64::from(machine));
        let access = server::Access {
            is_on: schedule.access,
            planted: settings.mutant.and_then(Mutant::in_servers),
        };
        let doors = Doors::new(SERVERS);
        let servers = (0..SERVERS).map(|machine| {
            SimServer::new(server::Parts {
                machine,
                servers: SERVERS,
                network: network.clone(),
                identity: pki.server.clone(),
                clock: Arc::new(SimClock::new(begun)),
                rng: chance(machine),
                access,
            })
        });
        let nodes = (SERVERS..SERVERS + NODES).map(|machine| {
            SimNode::new(node::Parts {
                machine,
                servers: SERVERS,
                network: network.clone(),
                identity: pki.node.clone(),
                clock: Arc::new(SimClock::new(begun)),
                eyes: Arc::clone(&eyes),
                seed,
                rng: chance(machine),
                mutant: settings.mutant,
            })
        });
        Ok(Self {
            mutant: settings.mutant,
            watchdog,
            begun,
            servers: servers.collect(),
            nodes: nodes.collect(),
            clients: Clients::new(&eyes, &doors, &schedule, seed),
            doors,
            eyes,
            network,
            schedule,
            on: BTreeMap::new(),
            restarts: BTreeMap::new(),
            aside: BTreeSet::new(),
        })
    }

    /// Answers how long it took to come to rest; `None` = it did not.
    async fn live(&mut self) -> Option<Duration> {
        self.begin().await;
        self.safety().await;
        if self.eyes.failure().is_some() {
            return None;
        }
        let healed = Instant::now();
        self.heal().await;
        self.liveness(healed).await
    }

    async fn begin(&mut self) {
        for machine in 0..SERVERS {
            self.start_server(machine).await;
        }
        for node in 0..self.nodes.len() {
            self.start_node(node);
        }
        self.clients.begin();
    }

    /// Faults and wishes, as the schedule says.
    async fn safety(&mut self) {
        let mut due: Vec<(Duration, Due)> = Vec::new();
        for fault in &self.schedule.faults {
            due.push((fault.at, Due::Begin(*fault)));
            let over = fault.at + fault.lasts;
            if !fault.lasts.is_zero() && over < self.schedule.safety {
                due.push((over, Due::End(*fault)));
            }
        }
        let wishes = self.schedule.ops.iter();
        due.extend(wishes.map(|op| (op.at, Due::Wish(*op))));
        due.sort_by_key(|(at, _)| *at);
        for (at, what) in due {
            if !self.look_until(self.begun + at).await {
                return;
            }
            match what {
                Due::Begin(fault) => self.begin_fault(fault).await,
                Due::End(fault) => self.end_fault(fault.number).await,
                Due::Wish(op) => self.clients.wish(op, self.door_at(op.server)),
            }
        }
        self.look_until(self.begun + self.schedule.safety).await;
    }

    /// Everything is well again, and everybody is there; each job is asked for once more, so that
    /// what is wanted is certain.
    async fn heal(&mut self) {
        self.eyes.note(|| "everything is healed".to_owned());
        self.eyes.healed();
        let on: Vec<u32> = self.on.keys().copied().collect();
        for number in on {
            self.end_fault(number).await;
        }
        self.network.heal();
        self.clients.forget();
    }

    async fn liveness(&mut self, healed: Instant) -> Option<Duration> {
        let deadline = healed + REST_MAX;
        let mut unrest = String::new();
        while Instant::now() < deadline {
            if !self.look_until(Instant::now() + LOOK_EVERY).await {
                return None;
            }
            self.ask_for_the_end();
            match self.unrest() {
                Some(why) => unrest = why,
                None => {
                    self.eyes.see(&Observation::Rested);
                    return Some(healed.elapsed());
                }
            }
        }
        self.eyes.fail(
            "comes_to_rest",
            "a healed cluster comes to rest: all nodes ready, what is wanted runs, nothing pending",
            unrest,
        );
        None
    }

    /// Lets time pass; answers whether everything still holds.
    async fn look_until(&mut self, until: Instant) -> bool {
        loop {
            let next = until.min(Instant::now() + LOOK_EVERY);
            sleep_until(next).await;
            self.look_after_servers().await;
            self.note_reach();
            self.eyes.see(&Observation::Look);
            self.watchdog.moved();
            if let Some(words) = panics::first() {
                let source = "style, Errors: bad input never panics, and what breaks is a bug";
                self.eyes.fail("nobody_panics", source, words);
            }
            if self.eyes.failure().is_some() {
                return false;
            }
            if next >= until {
                return true;
            }
        }
    }

    /// Ends processes that failed, and starts those again whose time has come.
    async fn look_after_servers(&mut self) {
        for server in 0..self.servers.len() {
            let it = &mut self.servers[server];
            let machine = it.machine;
            let torn = it.platters.is_torn();
            let failed = it.failure().or_else(|| torn.then(|| "no power".to_owned()));
            let Some(reason) = failed.filter(|_| it.is_up()) else {
                continue;
            };
            self.eyes.note(|| format!("s{machine} fails: {reason}"));
            self.end_server(machine);
            let again = Instant::now() + RESTART_AFTER;
            self.restarts.insert(machine, again);
        }
        let now = Instant::now();
        let due: Vec<Machine> = self
            .restarts
            .iter()
            .filter_map(|(machine, at)| (*at <= now).then_some(*machine))
            .collect();
        for machine in due {
            self.restarts.remove(&machine);
            if !self.is_held_down(machine) {
                self.start_server(machine).await;
            }
        }
    }

    async fn start_server(&mut self, machine: Machine) {
        let Some(server) = self.servers.get_mut(usize::from(machine)) else {
            return;
        };
        if server.is_up() {
            return;
        }
        match self.mutant {
            Some(Mutant::LyingDisks) => server.platters.behave(|manners| manners.lies = true),
            Some(Mutant::OldDisk) if self.aside.contains(&machine) => server.platters.go_back(),
            _ => {}
        }
        match server.start().await {
            Ok(()) => {
                let cluster = server.cluster().cloned();
                self.doors.set(machine, server.door().cloned());
                self.eyes.note(|| format!("s{machine} starts"));
                self.eyes.server_is(machine, cluster.clone());
                if let Some(cluster) = cluster {
                    let eyes = Arc::clone(&self.eyes);
                    tokio::spawn(follow(eyes, machine, cluster));
                }
            }
            Err(error) => {
                self.eyes
                    .note(|| format!("s{machine} does not start: {error:#}"));
                if self.mutant.is_none() && !self.has_disk_trouble(machine) {
                    self.eyes.fail(
                        "servers_start",
                        "a crash leaves at most one torn group, which is cut off",
                        format!("s{machine} does not start: {error:#}"),
                    );
                }
                let again = Instant::now() + RESTART_AFTER;
                self.restarts.insert(machine, again);
            }
        }
    }

    fn end_server(&mut self, machine: Machine) {
        let Some(server) = self.servers.get_mut(usize::from(machine)) else {
            return;
        };
        if self.mutant == Some(Mutant::OldDisk) && self.aside.insert(machine) {
            server.platters.put_aside();
        }
        server.kill();
        self.doors.set(machine, None);
        self.eyes.server_is(machine, None);
    }

    fn start_node(&mut self, node: usize) {
        let Some(node) = self.nodes.get_mut(node).filter(|node| !node.is_up()) else {
            return;
        };
        if self.mutant == Some(Mutant::ForgetfulNodes) {
            node.journal.set_drops();
        }
        if let Err(error) = node.start() {
            let machine = node.machine;
            self.eyes
                .note(|| format!("n{machine} does not start: {error:#}"));
        }
    }
}
