//! One simulated node: the daemon's loop and sessions around the real core, with imitations of what
//! a host has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use noded_core::event::{Ending, KeptRun, SessionEvent};
use noded_core::{BootId, NodeCore};
use noded_daemon::clock::{Clock, HostClock};
use noded_daemon::identities::{IdentityService, NoFiles};
use noded_daemon::input::Input;
use noded_daemon::queries::Queries;
use noded_daemon::session::SessionContext;
use noded_daemon::shell::{INPUTS_MAX, Shell};
use parking_lot::Mutex;
use protocol_model::NodeId;
use protocol_transport::{Endpoint, Secret};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::facts::{self, Capacity};
use crate::hands::IdleHands;
use crate::net::Wire;
use crate::outside::SharedSocket;
use crate::progress::{Journey, Progress, Stage};
use crate::records::{MemoryFile, MemoryRecords};
use crate::tasks::{Manners, TaskCounts, Tasks};

/// What all nodes of a fleet have in common.
#[derive(Debug)]
pub struct Common {
    /// The sockets: at least one.
    pub endpoints: Vec<Endpoint>,
    /// Where to begin to look for servers.
    pub servers: Vec<String>,
    /// What new nodes show.
    pub join_token: Secret,
    /// The boot of the host that they all are on.
    pub boot: [u8; 16],
    /// Drawn for this process: its nonces are no other's.
    pub life: [u8; 16],
    /// What makes their ids.
    pub seed: u64,
    /// Their class.
    pub class: String,
    /// What each may give away.
    pub capacity: Capacity,
    /// How their tasks behave.
    pub manners: Manners,
    /// What their sessions went through.
    pub journey: Arc<Journey>,
    /// What their tasks did.
    pub counts: Arc<TaskCounts>,
}

/// A host, and the daemon that runs on it.
#[derive(Debug)]
pub struct SimNode {
    /// Its id.
    pub id: NodeId,
    /// Its way to the network.
    pub wire: Arc<Wire>,
    /// How far its session is.
    pub progress: Arc<Progress>,
    /// Its tasks, which outlive daemons.
    pub tasks: Arc<Tasks>,
    number: u32,
    file: MemoryFile,
    daemon: Daemon,
}

#[derive(Debug)]
struct Daemon {
    inputs: mpsc::Sender<Input>,
    /// Ends it when it is dropped, too.
    stop: watch::Sender<bool>,
    ended: Option<JoinHandle<()>>,
}

/// How many daemons this process started: each draws nonces of its own.
static LIVES: AtomicU64 = AtomicU64::new(0);

impl Common {
    /// The socket of node `number`.
    pub fn endpoint_of(&self, number: u32) -> &Endpoint {
        let sockets = self.endpoints.len().max(1);
        &self.endpoints[number as usize % sockets]
    }
}

impl SimNode {
    /// Starts node `number` for the first time.
    pub fn start(common: &Arc<Common>, number: u32) -> Self {
        let id = facts::identity(common.seed, number).id;
        let progress = Arc::new(Progress::new(Arc::clone(&common.journey)));
        let (inputs, received) = passing(&progress);
        let tasks = Arc::new(Tasks::new(
            inputs.clone(),
            Arc::clone(&common.counts),
            Arc::new(HostClock),
        ));
        let wire = Arc::new(Wire::default());
        let file = MemoryFile::default();
        let host = Host {
            common,
            number,
            wire: &wire,
            progress: &progress,
            tasks: &tasks,
            file: &file,
        };
        let daemon = host.start_daemon(inputs, received, Vec::new());
        Self {
            id,
            wire,
            progress,
            tasks,
            number,
            file,
            daemon,
        }
    }

    /// Ends the daemon, and with it its connections. Tasks go on.
    pub async fn stop(&mut self) {
        self.daemon.stop.send_replace(true);
        if let Some(ended) = self.daemon.ended.take() {
            // A panic was printed where it happened.
            let _ = ended.await;
        }
        self.progress.on_stopped();
    }

    /// Starts a daemon after the end of the one before.
    pub fn start_again(&mut self, common: &Arc<Common>) {
        let (inputs, received) = passing(&self.progress);
        let kept = self.tasks.hand_over(inputs.clone());
        let host = Host {
            common,
            number: self.number,
            wire: &self.wire,
            progress: &self.progress,
            tasks: &self.tasks,
            file: &self.file,
        };
        self.daemon = host.start_daemon(inputs, received, kept);
    }

    /// Makes the node believe that its connection ended; its server hears of it when the node
    /// connects again.
    pub async fn lose_connection(&self) {
        let input = Input::Session {
            attempt: self.progress.attempt(),
            event: SessionEvent::Disconnected {
                reason: "broken on purpose".to_owned(),
                ending: Ending::Otherwise,
            },
            servers: Vec::new(),
        };
        // A loop that ended no longer wants to know.
        let _ = self.daemon.inputs.send(input).await;
    }

    /// Where its session is.
    pub fn stage(&self) -> Stage {
        self.progress.stage()
    }
}

/// What a daemon finds when it starts.
struct Host<'a> {
    common: &'a Arc<Common>,
    number: u32,
    wire: &'a Arc<Wire>,
    progress: &'a Arc<Progress>,
    tasks: &'a Arc<Tasks>,
    file: &'a MemoryFile,
}

impl Host<'_> {
    fn start_daemon(
        &self,
        inputs: mpsc::Sender<Input>,
        received: mpsc::Receiver<Input>,
        kept: Vec<KeptRun>,
    ) -> Daemon {
        let common = self.common;
        let identity = facts::identity(common.seed, self.number);
        let facts = facts::node(identity.id, &common.class, self.number, common.capacity);
        let node = Arc::new(facts);
        let queries = Arc::new(Queries::new(identity.id));
        let identities = Arc::new(IdentityService::new(
            Arc::clone(&queries),
            Arc::new(HostClock),
            inputs.clone(),
            None,
            common.seed ^ u64::from(self.number),
        ));
        let session = SessionContext {
            outside: Arc::new(SharedSocket {
                endpoint: common.endpoint_of(self.number).stranger(),
                wire: Arc::clone(self.wire),
                join_token: common.join_token.clone(),
                progress: Arc::clone(self.progress),
            }),
            queries,
            identity,
            boot_id: common.boot,
            facts: Mutex::new(Arc::clone(&node)),
            inputs: inputs.clone(),
        };
        let life = LIVES.fetch_add(1, Ordering::Relaxed);
        let settings = facts::settings(common.life, life);
        let restored = self.file.replay();
        let boot = BootId(common.boot);
        let shell = Shell {
            core: NodeCore::new(settings, node, restored, kept, boot, HostClock.now()),
            clock: Arc::new(HostClock),
            journal: Box::new(MemoryRecords::new(self.file.clone())),
            journal_news: Arc::new(Notify::new()),
            hands: Arc::new(IdleHands {
                tasks: Arc::clone(self.tasks),
                manners: common.manners,
                identities: Arc::clone(&identities),
            }),
            session: Arc::new(session),
            configured: common.servers.clone(),
            inputs: received,
            measure: Arc::new(Notify::new()),
        };
        let (stop, stopped) = watch::channel(false);
        let name = self.number;
        let ended = tokio::spawn(async move {
            let asking = tokio::spawn(identities.run(Arc::new(NoFiles)));
            if let Err(error) = shell.run(stopped).await {
                eprintln!("node {name} cannot go on: {error}");
            }
            asking.abort();
        });
        Daemon {
            inputs,
            stop,
            ended: Some(ended),
        }
    }
}

/// The way of inputs to a loop, by way of whoever notes what becomes of its session.
fn passing(progress: &Arc<Progress>) -> (mpsc::Sender<Input>, mpsc::Receiver<Input>) {
    let (inputs, passing) = mpsc::channel(INPUTS_MAX);
    let (onwards, received) = mpsc::channel(INPUTS_MAX);
    tokio::spawn(watch_inputs(Arc::clone(progress), passing, onwards));
    (inputs, received)
}

/// Hands inputs on to the loop and notes what becomes of the session.
async fn watch_inputs(
    progress: Arc<Progress>,
    mut passing: mpsc::Receiver<Input>,
    onwards: mpsc::Sender<Input>,
) {
    while let Some(input) = passing.recv().await {
        if let Input::Session { attempt, event, .. } = &input {
            progress.on_event(*attempt, event);
        }
        if onwards.send(input).await.is_err() {
            return;
        }
    }
}
