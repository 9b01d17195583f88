//! The replicated state behind the log, and the hub that tells everyone what was applied.
//!
//! ```text
//!   log --> StateMachine::apply --> State --+--> newest Snapshot (readers, blocking queries)
//!                                           +--> Signals with their index (the leader's loop)
//!                                           +--> "node n has news" (that node's watch stream)
//! ```

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use controlplane_raft::{ApplyError, CheckpointSource, Machine, Position, RestoreError};
use controlplane_state::codec::DecodeError;
use controlplane_state::command::EvalsDelete;
use controlplane_state::{Applied, Command, Signal, Snapshot, State, codec};
use parking_lot::Mutex;
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
    /// Counts up when the root keys changed.
    root_keys: watch::Sender<u64>,
    /// The rows of the newest page of deleted evaluations, and how long it took.
    deletion_pace: Mutex<Option<(u32, Duration)>>,
}

impl Hub {
    fn new(snapshot: Snapshot) -> Arc<Self> {
        Arc::new(Self {
            newest: watch::Sender::new(snapshot),
            follower: Mutex::new(None),
            nodes: Mutex::new(BTreeMap::new()),
            root_keys: watch::Sender::new(0),
            deletion_pace: Mutex::new(None),
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
    pub fn follow(&self) -> Follower {
        let (sender, entries) = mpsc::channel(SIGNALS_MAX);
        *self.follower.lock() = Some(sender);
        Follower {
            entries,
            newest: self.newest.subscribe(),
        }
    }

    /// Counts up whenever the node's session, status, or what is wanted of it changed.
    pub fn node_news(&self, node: NodeId) -> watch::Receiver<u64> {
        self.nodes.lock().entry(node).or_default().subscribe()
    }

    /// Counts up whenever the root keys of the state may have changed.
    pub(crate) fn root_keys(&self) -> watch::Receiver<u64> {
        self.root_keys.subscribe()
    }

    /// Forgets a node when nobody listens for its news any more.
    pub fn forget_node(&self, node: NodeId) {
        let mut nodes = self.nodes.lock();
        if nodes.get(&node).is_some_and(watch::Sender::is_closed) {
            nodes.remove(&node);
        }
    }

    /// The rows of the newest page of deleted evaluations that was applied here, and how long that
    /// took: whoever proposes the next page fits its size.
    pub(crate) fn deletion_pace(&self) -> Option<(u32, Duration)> {
        *self.deletion_pace.lock()
    }

    fn publish(&self, snapshot: Snapshot, applied: Applied) {
        // The snapshot first: whoever is woken must find what woke it.
        self.newest.send_replace(snapshot);
        {
            let nodes = self.nodes.lock();
            for signal in &applied.signals {
                if let Some(news) = signal.node().and_then(|node| nodes.get(&node)) {
                    news.send_modify(|count| *count += 1);
                }
                if *signal == Signal::RootKeysChanged {
                    self.root_keys.send_modify(|count| *count += 1);
                }
                if *signal == Signal::IncarnationChanged {
                    self.root_keys.send_modify(|count| *count += 1);
                    nodes
                        .values()
                        .for_each(|news| news.send_modify(|count| *count += 1));
                }
            }
        }
        if !applied.signals.is_empty() {
            let mut follower = self.follower.lock();
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
        *self.follower.lock() = None;
        self.root_keys.send_modify(|count| *count += 1);
        self.nodes
            .lock()
            .values()
            .for_each(|news| news.send_modify(|count| *count += 1));
    }
}

/// Whoever follows the log: each entry comes with a state that has it.
#[derive(Debug)]
pub struct Follower {
    entries: mpsc::Receiver<AppliedSignals>,
    newest: watch::Receiver<Snapshot>,
}

impl Follower {
    /// The next entry; `None` where the log went on without whoever follows it.
    pub async fn next(&mut self) -> Option<(AppliedSignals, Snapshot)> {
        let entry = self.entries.recv().await?;
        Some(self.with_state(entry))
    }

    /// The next entry, if it was applied already.
    pub fn try_next(&mut self) -> Option<(AppliedSignals, Snapshot)> {
        let entry = self.entries.try_recv().ok()?;
        Some(self.with_state(entry))
    }

    /// The state is looked at once the entry is there, for each one anew: entries are applied while
    /// others are handled, and an older state does not know what a signal speaks of.
    fn with_state(&self, entry: AppliedSignals) -> (AppliedSignals, Snapshot) {
        (entry, self.newest.borrow().clone())
    }
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

/// An entry that this release cannot read. Servers of a newer release apply it, so passing over it
/// would leave this one with another state than theirs, for good.
#[derive(Debug, thiserror::Error)]
#[error("the log was written by a newer release than this one: upgrade this server")]
struct NotUnderstood(#[source] DecodeError);

impl Machine for StateMachine {
    fn apply(&mut self, position: Position, command: &[u8]) -> Result<Vec<u8>, ApplyError> {
        let stamped = codec::decode(command).map_err(NotUnderstood)?;
        count(&stamped.command, command.len());
        let applied = match &stamped.command {
            // It reads a whole state, which takes seconds where the state is large.
            Command::RestoreCommit { .. } => {
                off_the_runtime(|| self.state.apply(position.index, stamped))
            }
            Command::EvalsDelete(EvalsDelete::Page(page)) => {
                let (rows, begun) = (page.rows, Instant::now());
                let applied = self.state.apply(position.index, stamped);
                let took = begun.elapsed();
                metrics::histogram!("drover_evals_delete_page_seconds").record(took.as_secs_f64());
                *self.hub.deletion_pace.lock() = Some((rows, took));
                applied
            }
            _ => self.state.apply(position.index, stamped),
        };
        let response = codec::encode_applied(&applied).unwrap_or_else(|error| {
            // An outcome is plain data; the proposer learns that it cannot be known.
            tracing::error!(index = position.index, %error, "the result of a log entry cannot be encoded");
            Vec::new()
        });
        self.hub.publish(self.state.snapshot(), applied);
        Ok(response)
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

/// Counts what the log is made of: its commands, and of those the nodes' updates.
fn count(command: &Command, bytes: usize) {
    let bytes = bytes as u64;
    metrics::counter!("drover_log_entries").increment(1);
    metrics::counter!("drover_log_bytes").increment(bytes);
    if let Command::AllocUpdates { batches } = command {
        let reports: usize = batches.iter().map(|batch| batch.reports.len()).sum();
        metrics::counter!("drover_log_update_entries").increment(1);
        metrics::counter!("drover_log_update_bytes").increment(bytes);
        metrics::counter!("drover_log_update_reports").increment(reports as u64);
    }
}

/// Does what takes long on a thread of the runtime without holding up what else it runs.
fn off_the_runtime<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

struct Capture(Snapshot);

impl CheckpointSource for Capture {
    fn write_to(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.0
            .write_checkpoint(sink)
            .map(drop)
            .map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::{SchedulerConfig, Stamped};
    use protocol_model::{Incarnation, UnixNanos};

    use super::*;

    fn apply(machine: &mut StateMachine, index: u64, command: Command) {
        let stamped = Stamped {
            now: UnixNanos::ZERO,
            seed: [7; 16],
            command,
        };
        let bytes = codec::encode(&stamped).expect("it can be written");
        let position = Position { index, term: 1 };
        machine.apply(position, &bytes).expect("it is applied");
    }

    /// Pauses the broker, or lets it go on.
    fn pause(pause_eval_broker: bool) -> Command {
        let config = SchedulerConfig {
            pause_eval_broker,
            ..SchedulerConfig::default()
        };
        Command::SchedulerConfigSet {
            config,
            enforce_index: None,
        }
    }

    #[test]
    fn an_entry_that_is_applied_while_another_one_is_handled_comes_with_a_state_that_has_it() {
        let (mut machine, hub) = StateMachine::new();
        let incarnation = Incarnation::from_u128(1);
        apply(&mut machine, 1, Command::ClusterInit { incarnation });
        let mut follower = hub.follow();
        apply(&mut machine, 2, pause(true));
        let (first, state) = follower.try_next().expect("the first");
        assert_eq!((first.index, state.index()), (2, 2));
        apply(&mut machine, 3, pause(false));
        let (second, state) = follower.try_next().expect("the second");
        assert_eq!((second.index, state.index()), (3, 3));
        assert!(!state.scheduler_config().pause_eval_broker);
        assert!(follower.try_next().is_none());
    }
}
