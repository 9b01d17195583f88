//! The replicated state behind the log, and the hub that tells everyone what was applied.
//!
//! ```text
//!   log --> StateMachine::apply --> State --+--> newest Snapshot (readers, blocking queries)
//!                                           +--> Signals with their index (the leader's loop)
//!                                           +--> "node n has news" (that node's watch stream)
//! ```

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use controlplane_raft::{CheckpointSource, Machine, Position, RestoreError};
use controlplane_state::{Applied, Outcome, Refusal, Signal, Snapshot, State, codec};
use protocol_model::NodeId;
use tokio::sync::{mpsc, watch};

/// Applied entries that wait for the leader's loop.
const SIGNALS_MAX: usize = 65_536;

/// What was applied, for whoever follows the log.
#[derive(Debug)]
pub struct AppliedSignals {
    /// The log index.
    pub index: u64,
    /// What changed.
    pub signals: Vec<Signal>,
}

/// Where everything that follows the state listens.
#[derive(Debug)]
pub struct Hub {
    newest: watch::Sender<Snapshot>,
    /// The leader's loop, while this server leads. One that falls [`SIGNALS_MAX`] entries behind is
    /// let go: it sees its channel closed and begins anew from a snapshot.
    follower: Mutex<Option<mpsc::Sender<AppliedSignals>>>,
    nodes: Mutex<BTreeMap<NodeId, watch::Sender<u64>>>,
}

impl Hub {
    fn new(snapshot: Snapshot) -> Arc<Self> {
        Arc::new(Self {
            newest: watch::Sender::new(snapshot),
            follower: Mutex::new(None),
            nodes: Mutex::new(BTreeMap::new()),
        })
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Snapshot {
        self.newest.borrow().clone()
    }

    /// A watch on the newest snapshot.
    pub fn watch(&self) -> watch::Receiver<Snapshot> {
        self.newest.subscribe()
    }

    /// Follows the log from here on; whoever followed before hears nothing more. Take a snapshot
    /// *after* this call and skip what is not newer than it: nothing is missed then.
    pub fn follow(&self) -> mpsc::Receiver<AppliedSignals> {
        let (sender, receiver) = mpsc::channel(SIGNALS_MAX);
        *lock(&self.follower) = Some(sender);
        receiver
    }

    /// Counts up whenever the node's session, status, or what is wanted of it changed.
    pub fn node_news(&self, node: NodeId) -> watch::Receiver<u64> {
        lock(&self.nodes).entry(node).or_default().subscribe()
    }

    /// Forgets a node when nobody listens for its news any more.
    pub fn forget_node(&self, node: NodeId) {
        let mut nodes = lock(&self.nodes);
        if nodes.get(&node).is_some_and(watch::Sender::is_closed) {
            nodes.remove(&node);
        }
    }

    fn publish(&self, snapshot: Snapshot, applied: Applied) {
        // The snapshot first: whoever is woken must find what woke it.
        self.newest.send_replace(snapshot);
        {
            let nodes = lock(&self.nodes);
            for signal in &applied.signals {
                match signal {
                    Signal::AllocsDesired { node, .. }
                    | Signal::NodeSessionStarted { node, .. }
                    | Signal::NodeStatusChanged { node, .. }
                    | Signal::NodeRemoved(node) => {
                        if let Some(news) = nodes.get(node) {
                            news.send_modify(|count| *count += 1);
                        }
                    }
                    Signal::IncarnationChanged => {
                        nodes
                            .values()
                            .for_each(|news| news.send_modify(|count| *count += 1));
                    }
                    _ => {}
                }
            }
        }
        if !applied.signals.is_empty() {
            let mut follower = lock(&self.follower);
            let gone = follower.as_ref().is_some_and(|sender| {
                let Applied { index, signals, .. } = applied;
                sender.try_send(AppliedSignals { index, signals }).is_err()
            });
            if gone {
                *follower = None;
            }
        }
    }

    fn replace(&self, snapshot: Snapshot) {
        self.newest.send_replace(snapshot);
        // Whoever follows the log has a gap now, and begins anew when it sees its channel closed.
        *lock(&self.follower) = None;
        lock(&self.nodes)
            .values()
            .for_each(|news| news.send_modify(|count| *count += 1));
    }
}

/// A lock whose holder panicked still guards whole values here: every change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state machine that the log is applied to.
#[derive(Debug)]
pub struct StateMachine {
    state: State,
    hub: Arc<Hub>,
}

impl StateMachine {
    /// An empty state, and the hub that will tell of its changes.
    pub fn new() -> (Self, Arc<Hub>) {
        let state = State::new();
        let hub = Hub::new(state.snapshot());
        (
            Self {
                state,
                hub: Arc::clone(&hub),
            },
            hub,
        )
    }
}

impl Machine for StateMachine {
    fn apply(&mut self, position: Position, command: &[u8]) -> Vec<u8> {
        let applied = match codec::decode(command) {
            Ok(stamped) => self.state.apply(position.index, stamped),
            Err(error) => {
                // Every server of this release decides the same: the entry does nothing. It was
                // written by a newer release, or by a broken one.
                tracing::error!(index = position.index, %error, "log entry is not understood");
                Applied {
                    index: position.index,
                    outcome: Outcome::Refused(Refusal::Malformed(
                        "the entry is not understood".into(),
                    )),
                    signals: Vec::new(),
                }
            }
        };
        let response = codec::encode_applied(&applied).unwrap_or_else(|error| {
            // An outcome is plain data; the proposer learns that it cannot be known.
            tracing::error!(index = position.index, %error, "an outcome cannot be written");
            Vec::new()
        });
        self.hub.publish(self.state.snapshot(), applied);
        response
    }

    /// Entries without a command change nothing here: the state's index is that of its newest
    /// command, which is what readers wait for.
    fn advance(&mut self, _position: Position) {}

    fn checkpoint(&self) -> Box<dyn CheckpointSource> {
        Box::new(Capture(self.state.snapshot()))
    }

    fn restore(
        &mut self,
        checkpoint: &mut dyn Read,
        _position: Position,
    ) -> Result<(), RestoreError> {
        self.state = State::restore(checkpoint)?;
        self.hub.replace(self.state.snapshot());
        Ok(())
    }
}

struct Capture(Snapshot);

impl CheckpointSource for Capture {
    fn write_to(self: Box<Self>, sink: &mut dyn Write) -> io::Result<()> {
        self.0
            .write_checkpoint(sink)
            .map(drop)
            .map_err(io::Error::other)
    }
}
