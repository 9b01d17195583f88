//! Nodes that drain: which allocations leave next, and when a drain is over.
//!
//! ```text
//!   a drain is set, or something of its jobs changed --> look, at most each 250 ms
//!   look --> marks: at most 512 in an entry    (then look again)
//!        --> nothing left that has to leave: the drain is complete
//! ```
//!
//! How an allocation leaves is the state's answer ([`Tables::drain_mark`]), which `apply` asks
//! again. Nothing is kept here but when to look, so a new leader continues where the old one was.
//!
//! [`Tables::drain_mark`]: controlplane_state::Tables::drain_mark

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use controlplane_state::command::{DrainMark, DrainMarks};
use controlplane_state::{Command, Departure, NodeRecord, Signal, Snapshot};
use protocol_model::{DrainStrategy, EvalId, JobKey, NodeId, UnixNanos};

use crate::part::{Applied, Effect, LeaderPart};
use crate::time::Now;

/// The shortest time between two looks: reports of many allocations are looked at together.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The longest wait for a deadline: the wall clock may jump meanwhile.
const DEADLINE_WAIT_MAX: Duration = Duration::from_secs(60);
/// Marks in one command: more take several.
pub const MARKS_MAX: usize = 512;

/// When to look at the nodes that drain.
#[derive(Debug, Default)]
pub struct Drains {
    /// The nodes that drain.
    nodes: BTreeSet<NodeId>,
    /// Jobs with something on them, as of the last look.
    jobs: BTreeSet<JobKey>,
    /// When the next look is due.
    due: Option<Duration>,
    /// When the last one was.
    looked: Option<Duration>,
    /// Nothing is looked at before.
    earliest: Duration,
    /// The commands that the last look found.
    ready: VecDeque<Command>,
}

impl Drains {
    /// Every drain of a state.
    pub fn of(snapshot: &Snapshot, now: Now) -> Self {
        let mut drains = Self::default();
        drains.reload(snapshot, now);
        drains
    }

    fn reload(&mut self, snapshot: &Snapshot, now: Now) {
        let draining = snapshot.nodes().filter(|record| record.node.drain);
        self.nodes = draining.map(|record| record.node.id).collect();
        self.wake(now);
    }

    /// Something changed that may matter.
    fn wake(&mut self, now: Now) {
        if self.nodes.is_empty() {
            self.due = None;
            return;
        }
        let next = self.looked.map(|last| last + LOOK_EVERY);
        let at = next.map_or(now.monotonic, |next| next.max(now.monotonic));
        self.due_by(at);
    }

    fn due_by(&mut self, at: Duration) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// A node changed.
    fn note_node(&mut self, id: NodeId, snapshot: &Snapshot, now: Now) {
        let drains = snapshot.node(id).is_some_and(|record| record.node.drain);
        let was = if drains {
            !self.nodes.insert(id)
        } else {
            self.nodes.remove(&id)
        };
        if was || drains {
            self.wake(now);
        }
    }

    /// The next command, where a look is due or the last one left something.
    pub fn poll_command(&mut self, snapshot: &Snapshot, now: Now) -> Option<Command> {
        if self.ready.is_empty() && self.poll_timeout().is_some_and(|due| due <= now.monotonic) {
            self.look(snapshot, now);
        }
        self.ready.pop_front()
    }

    fn look(&mut self, snapshot: &Snapshot, now: Now) {
        self.due = None;
        self.looked = Some(now.monotonic);
        self.jobs.clear();
        let time = snapshot.now().max(now.wall);
        let mut look = Look {
            snapshot,
            time,
            turns: BTreeMap::new(),
            left: MARKS_MAX,
        };
        let mut marked = Vec::new();
        let records = self.nodes.iter().filter_map(|id| snapshot.node(*id));
        let mut records: Vec<_> = records.cloned().collect();
        // A deadline waits for no turn: what it stops is not there for the others any more.
        let overdue = |record: &NodeRecord| {
            let strategy = record.node.drain_strategy;
            strategy.is_some_and(|it| it.is_overdue(time))
        };
        records.sort_by_key(|record| !overdue(record));
        for record in &records {
            let Some(strategy) = record.node.drain_strategy else {
                continue;
            };
            if let Some(at) = strategy.force_deadline.filter(|at| *at > time) {
                let wait = at.saturating_since(time).min(DEADLINE_WAIT_MAX);
                self.due_by(now.monotonic + wait);
            }
            let marks = look.marks(record, strategy, &mut self.jobs);
            if !marks.is_empty() {
                marked.push(DrainMarks {
                    node: record.node.id,
                    drain_index: record.drain_index,
                    marks,
                });
            } else if snapshot.drain_is_over(record) {
                self.ready.push_back(Command::NodeDrainComplete {
                    node: record.node.id,
                    drain_index: record.drain_index,
                });
            }
        }
        if !marked.is_empty() {
            self.ready
                .push_front(Command::AllocsMigrate { nodes: marked });
        }
        if !self.ready.is_empty() {
            // There may be more, and an entry may get lost.
            self.due_by(now.monotonic + LOOK_EVERY);
        }
    }
}

/// One look at all nodes that drain.
struct Look<'a> {
    snapshot: &'a Snapshot,
    time: UnixNanos,
    /// How many of each group may leave still: the group's, whatever node they are on.
    turns: BTreeMap<(JobKey, String), u32>,
    /// How many marks the command has room for.
    left: usize,
}

impl Look<'_> {
    /// The marks of one node; `jobs` are those that have something on it.
    fn marks(
        &mut self,
        record: &NodeRecord,
        strategy: DrainStrategy,
        jobs: &mut BTreeSet<JobKey>,
    ) -> Vec<(protocol_model::AllocId, DrainMark)> {
        let snapshot = self.snapshot;
        let mut marks = Vec::new();
        let on_node = snapshot.allocs_on_node(record.node.id);
        for alloc in on_node.filter(|alloc| !alloc.client_terminal()) {
            jobs.insert(alloc.job_key());
            let Some(mark) = snapshot.drain_mark(alloc, strategy, self.time) else {
                continue;
            };
            let waits = mark == DrainMark::Migrate
                && snapshot.departure(alloc, strategy) == Departure::InTurn;
            if self.left == 0 || (waits && !self.take_turn(alloc.job_key(), &alloc.task_group)) {
                continue;
            }
            self.left -= 1;
            marks.push((alloc.id, mark));
        }
        marks
    }

    fn take_turn(&mut self, job: JobKey, group: &str) -> bool {
        let left = self.turns.entry((job, group.to_owned()));
        let left = left.or_insert_with_key(|(job, group)| self.snapshot.drain_turns(job, group));
        let free = *left > 0;
        *left = left.saturating_sub(1);
        free
    }
}

impl LeaderPart for Drains {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a part names the signals that it acts on"
    )]
    fn on_applied(&mut self, applied: Applied<'_>, now: Now) {
        for signal in applied.signals {
            match signal {
                Signal::NodeChanged(node) | Signal::NodeRemoved(node) => {
                    self.note_node(*node, applied.snapshot, now);
                }
                // The allocations of a node that is back count as healthy again.
                Signal::NodeStatusChanged { node, .. } => {
                    self.note_node(*node, applied.snapshot, now);
                    self.wake(now);
                }
                Signal::AllocsDesired { node, .. } if self.nodes.contains(node) => self.wake(now),
                Signal::AllocReported { job, .. } | Signal::JobChanged(job)
                    if self.jobs.contains(job) =>
                {
                    self.wake(now);
                }
                // A promotion makes canaries count.
                Signal::DeploymentChanged(_) => self.wake(now),
                Signal::IncarnationChanged => self.reload(applied.snapshot, now),
                _ => {}
            }
        }
    }

    /// Reports of health do not arrive: no allocation leaves on the health of before.
    fn on_unheard(&mut self, silence: Duration, now: Now) {
        self.earliest = now.monotonic + silence;
    }

    fn poll(
        &mut self,
        snapshot: &Snapshot,
        _: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        self.poll_command(snapshot, now).map(Effect::Command)
    }

    fn on_failed(&mut self, effect: &Effect, now: Now) {
        if let Effect::Command(Command::AllocsMigrate { .. } | Command::NodeDrainComplete { .. }) =
            effect
        {
            self.ready.clear();
            self.wake(now);
        }
    }

    fn poll_timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        self.due.map(|due| due.max(self.earliest))
    }
}

#[cfg(test)]
mod tests;
