//! One node: the daemon's loop and sessions around the real core, on a machine whose daemon can be
//! killed and which can lose its power. Its tasks and its journal are imitations.
//!
//! ```text
//!   start --> runs --kill--> no daemon, tasks go on --start--> runs
//!                  --power cut--> nothing runs      --start--> runs, another boot
//! ```

pub mod hands;
pub mod journal;
pub mod outside;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hack_nodesim::facts::{self, Capacity};
use hack_nodesim::hands::IdleHands;
use hack_nodesim::tasks::{Manners, Tasks};
use hack_sim::rng::Rng;
use noded_core::event::{KeptRun, RunEvent};
use noded_core::{BootId, Event, NodeCore, RunKey};
use noded_daemon::clock::Clock;
use noded_daemon::identities::IdentityService;
use noded_daemon::input::Input;
use noded_daemon::queries::Queries;
use noded_daemon::session::SessionContext;
use noded_daemon::shell::{INPUTS_MAX, Shell};
use parking_lot::Mutex;
use protocol_model::NodeId;
use protocol_transport::{Endpoint, EndpointConfig, Identity, Limits};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use self::hands::SeenHands;
use self::journal::{JournalFile, SimRecords};
use self::outside::OwnSocket;
use crate::eyes::{Eyes, Observation};
use crate::mutant::Mutant;
use crate::net::{Machine, Network, SERVER_PORT, address_of};
use crate::time::SimClock;

/// The first port of nodes: each life of a daemon has another, as the kernel gives them out.
const PORT_MIN: u16 = 20_000;
const CAPACITY: Capacity = Capacity {
    cpu_mhz: 4000,
    memory_mib: 8192,
};
const MANNERS: Manners = Manners {
    start_delay: Duration::from_millis(20),
    stop_delay: Duration::from_millis(50),
};

/// How late a planted bug tells of a start.
const LATE: Duration = Duration::from_secs(40);

/// What a node's machine is made of.
#[derive(Debug)]
pub struct Parts {
    pub machine: Machine,
    pub servers: u8,
    pub network: Network,
    pub identity: Identity,
    pub clock: Arc<SimClock>,
    pub eyes: Arc<Eyes>,
    pub seed: u64,
    pub rng: Rng,
    pub mutant: Option<Mutant>,
}

/// A host, and the daemon that runs on it.
#[derive(Debug)]
pub struct SimNode {
    pub id: NodeId,
    pub machine: Machine,
    pub journal: JournalFile,
    pub clock: Arc<SimClock>,
    parts: Kept,
    tasks: Arc<Tasks>,
    boot: [u8; 16],
    lives: u16,
    daemon: Option<Daemon>,
}

/// What stays the same over the lives of a machine.
#[derive(Debug)]
struct Kept {
    network: Network,
    identity: Identity,
    servers: Vec<String>,
    eyes: Arc<Eyes>,
    seed: u64,
    rng: Rng,
    mutant: Option<Mutant>,
}

#[derive(Debug)]
struct Daemon {
    stop: watch::Sender<bool>,
    endpoint: Endpoint,
    running: JoinHandle<()>,
}

impl SimNode {
    /// A machine that was just switched on, without a daemon.
    pub fn new(parts: Parts) -> Self {
        let Parts {
            machine,
            servers,
            network,
            identity,
            clock,
            eyes,
            seed,
            mut rng,
            mutant,
        } = parts;
        let servers = (0..servers).map(|server| address_of(server, SERVER_PORT).to_string());
        let boot = rng.bytes();
        if mutant == Some(Mutant::JumpingHosts) {
            clock.set_jumps();
        }
        let tasks = no_tasks(&clock, &eyes);
        eyes.host_is_on(machine, &tasks);
        Self {
            id: facts::identity(seed, machine.into()).id,
            machine,
            journal: JournalFile::default(),
            tasks,
            clock,
            boot,
            lives: 0,
            daemon: None,
            parts: Kept {
                network,
                identity,
                servers: servers.collect(),
                eyes,
                seed,
                rng,
                mutant,
            },
        }
    }

    /// Whether a daemon runs.
    pub fn is_up(&self) -> bool {
        self.daemon.is_some()
    }

    /// Starts a daemon.
    ///
    /// # Errors
    /// Where it has no socket.
    pub fn start(&mut self) -> anyhow::Result<()> {
        self.lives += 1;
        let endpoint = self.bind().context("a node's socket")?;
        let (inputs, received) = mpsc::channel(INPUTS_MAX);
        let kept = match self.parts.mutant {
            Some(Mutant::StartsToldLate) => self.tasks.hand_over(with_late_starts(inputs.clone())),
            _ => self.tasks.hand_over(inputs.clone()),
        };
        let news = Arc::new(Notify::new());
        let shell = self.shell(&endpoint, &inputs, received, kept, &news);
        let (stop, stopped) = watch::channel(false);
        let (eyes, node) = (Arc::clone(&self.parts.eyes), self.machine);
        let running = tokio::spawn(async move {
            if let Err(error) = shell.run(stopped).await {
                eyes.note(|| format!("node {node} cannot go on: {error}"));
            }
        });
        self.parts.eyes.daemon_is_up(self.machine, true);
        self.daemon = Some(Daemon {
            stop,
            endpoint,
            running,
        });
        Ok(())
    }

    /// Kills the daemon; tasks go on, and what was written stays.
    pub fn kill(&mut self) {
        self.parts.network.unplug(self.machine);
        if let Some(daemon) = self.daemon.take() {
            self.parts.eyes.daemon_is_up(self.machine, false);
            daemon.running.abort();
            daemon.stop.send_replace(true);
            daemon.endpoint.close();
        }
    }

    /// Takes the machine's power, and with it its tasks and what was not synced.
    pub fn cut_power(&mut self) {
        self.kill();
        self.journal.cut_power();
        self.clock.reboot();
        self.boot = self.parts.rng.bytes();
        self.tasks.lose_power();
        self.tasks = no_tasks(&self.clock, &self.parts.eyes);
        self.parts.eyes.host_is_on(self.machine, &self.tasks);
    }

    fn bind(&mut self) -> anyhow::Result<Endpoint> {
        let address = address_of(self.machine, PORT_MIN + self.lives);
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(&self.parts.rng.bytes());
        let settings = EndpointConfig {
            listen: address,
            identity: self.parts.identity.clone(),
            limits: Limits::default(),
        };
        let socket = self.parts.network.bind(address);
        let runtime = Arc::new(quinn::TokioRuntime);
        Ok(Endpoint::over(&settings, socket, runtime, Some(seed))?)
    }

    fn shell(
        &mut self,
        endpoint: &Endpoint,
        inputs: &mpsc::Sender<Input>,
        received: mpsc::Receiver<Input>,
        kept: Vec<KeptRun>,
        news: &Arc<Notify>,
    ) -> Shell {
        let Self { machine, clock, .. } = self;
        let (machine, parts) = (*machine, &mut self.parts);
        let identity = facts::identity(parts.seed, machine.into());
        let node = Arc::new(facts::node(identity.id, "sim", machine.into(), CAPACITY));
        let queries = Arc::new(Queries::new(identity.id));
        // Its jobs show no identities, so that nothing is asked.
        let identities = IdentityService::new(
            Arc::clone(&queries),
            Arc::clone(clock) as _,
            inputs.clone(),
            None,
            0,
        );
        let session = SessionContext {
            outside: Arc::new(OwnSocket {
                endpoint: endpoint.clone(),
            }),
            queries,
            identity,
            boot_id: self.boot,
            facts: Mutex::new(Arc::clone(&node)),
            inputs: inputs.clone(),
        };
        let settings = facts::settings(parts.rng.bytes(), self.lives.into());
        let restored = self.journal.replay();
        parts.eyes.see(&Observation::DaemonStarted {
            node: machine,
            boot: self.boot,
            watermark: restored.watermark,
        });
        let boot = BootId(self.boot);
        let eyes = Arc::clone(&parts.eyes);
        let records = SimRecords::new(
            self.journal.clone(),
            machine,
            Arc::clone(&eyes),
            Arc::clone(news),
        );
        Shell {
            core: NodeCore::new(settings, node, restored, kept, boot, clock.now()),
            clock: Arc::clone(clock) as _,
            journal: Box::new(records),
            journal_news: Arc::clone(news),
            hands: Arc::new(SeenHands {
                machine,
                inner: Arc::new(IdleHands {
                    tasks: Arc::clone(&self.tasks),
                    manners: MANNERS,
                    identities: Arc::new(identities),
                }),
                eyes,
                mutant: parts.mutant,
            }),
            session: Arc::new(session),
            configured: parts.servers.clone(),
            inputs: received,
            measure: Arc::new(Notify::new()),
        }
    }
}

/// A planted bug: a way to a daemon on which the start of a task takes its time. Where the task
/// ends before, that is told after it.
fn with_late_starts(inputs: mpsc::Sender<Input>) -> mpsc::Sender<Input> {
    let (sender, mut received) = mpsc::channel(INPUTS_MAX);
    tokio::spawn(async move {
        let mut late: BTreeMap<RunKey, Instant> = BTreeMap::new();
        while let Some(input) = received.recv().await {
            let wait_until = match &input {
                Input::Event(Event::Run { run, event }) => match event {
                    RunEvent::Started { .. } => {
                        let until = Instant::now() + LATE;
                        late.insert(run.clone(), until);
                        until
                    }
                    _ => late.get(run).copied().unwrap_or_else(Instant::now),
                },
                _ => Instant::now(),
            };
            let inputs = inputs.clone();
            tokio::spawn(async move {
                sleep_until(wait_until).await;
                // A daemon that ended meanwhile hears of it from its list.
                let _ = inputs.send(input).await;
            });
        }
    });
    sender
}

/// What runs on a host that was just switched on.
fn no_tasks(clock: &Arc<SimClock>, eyes: &Eyes) -> Arc<Tasks> {
    let (nobody, _) = mpsc::channel(1);
    let counts = eyes.task_counts();
    Arc::new(Tasks::new(nobody, counts, Arc::clone(clock) as _))
}
