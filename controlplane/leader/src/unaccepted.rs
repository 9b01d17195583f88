//! Which nodes, although ready, do not accept what is placed on them. A node's first word about an
//! allocation says that its journal has it; where that does not come, the allocation has to be
//! moved, or it stays pending for as long as the node's disk hangs.

use std::time::Duration;

use controlplane_state::command::Unaccepted;
use controlplane_state::{Command, SessionEpoch, Signal, Snapshot};
use protocol_model::{EvalId, NodeId, NodeStatus, UnixNanos};

use crate::deadlines::{AGAIN_AFTER, Due, NodeDeadlines};
use crate::part::{Applied, Effect, LeaderPart};
use crate::time::Now;

/// How long a node may take to accept an allocation, from when both are there. Far above what a
/// node that is well takes under the heaviest load (typical reports wait for up to 10 s).
pub const ACCEPTED_WITHIN: Duration = Duration::from_secs(60);
/// Allocations in one command: more take several.
const EXPIRED_MAX: usize = 4096;
/// Nodes that are looked at in one turn, with everything on them: the others are due in the next.
/// A minute after a new leader took over that is all of them at once.
const LOOKS_MAX: usize = 128;

/// When to look at every node on which something was placed.
#[derive(Debug, Default)]
pub struct PendingAllocs {
    nodes: NodeDeadlines,
}

impl PendingAllocs {
    /// Something may have been placed on a node that is ready.
    pub fn watch(&mut self, node: NodeId, epoch: SessionEpoch, now: Now) {
        if self.nodes.due(node).is_none_or(|due| due.epoch != epoch) {
            let deadline = now.monotonic + ACCEPTED_WITHIN;
            self.nodes.set(node, Due { epoch, deadline });
        }
    }

    /// A node is not ready, or not known any more.
    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(node);
    }

    /// No node's word can get into the log. What they say meanwhile may come late when it can
    /// again: whatever is due in the next half of their time gets all of it once more.
    pub fn on_stuck(&mut self, now: Now) {
        let soon = now.monotonic + ACCEPTED_WITHIN / 2;
        if self.nodes.first().is_some_and(|first| first < soon) {
            self.nodes.not_before(now.monotonic + ACCEPTED_WITHIN);
        }
    }

    /// Allocations that their nodes did not accept in time, at most [`EXPIRED_MAX`], of at most
    /// [`LOOKS_MAX`] nodes.
    pub fn poll_expired(&mut self, snapshot: &Snapshot, now: Now) -> Vec<Unaccepted> {
        let time = snapshot.now().max(now.wall);
        let mut expired = Vec::new();
        let (mut count, mut looks) = (0, 0);
        while count < EXPIRED_MAX
            && looks < LOOKS_MAX
            && let Some((node, epoch, record)) =
                self.nodes
                    .take_overdue_as(NodeStatus::Ready, snapshot, now.monotonic)
        {
            looks += 1;
            // In whole seconds, rounded down.
            let ready_since = record.node.status_updated_at.saturating_add(1);
            let ready_since = UnixNanos(ready_since.saturating_mul(1_000_000_000));
            let mut allocs = Vec::new();
            let mut next: Option<Duration> = None;
            let pending = snapshot.allocs_on_node(node);
            for alloc in pending.filter(|alloc| snapshot.is_unaccepted(alloc)) {
                let due = alloc
                    .create_time
                    .max(ready_since)
                    .saturating_add(ACCEPTED_WITHIN);
                if due <= time && count < EXPIRED_MAX {
                    allocs.push(alloc.id);
                    count += 1;
                } else {
                    let left = due.saturating_since(time);
                    next = Some(next.map_or(left, |earlier| earlier.min(left)));
                }
            }
            if !allocs.is_empty() {
                expired.push(Unaccepted {
                    node,
                    epoch,
                    allocs,
                });
                next = Some(AGAIN_AFTER);
            }
            if let Some(wait) = next {
                // The clock that ages are taken from may jump.
                let wait = wait.clamp(AGAIN_AFTER, ACCEPTED_WITHIN);
                let deadline = now.monotonic + wait;
                self.nodes.set(node, Due { epoch, deadline });
            }
        }
        expired
    }
}

impl LeaderPart for PendingAllocs {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a part names the signals that it acts on"
    )]
    fn on_applied(&mut self, applied: Applied<'_>, now: Now) {
        for signal in applied.signals {
            match signal {
                Signal::NodeStatusChanged {
                    node, epoch, to, ..
                } => {
                    if *to == NodeStatus::Ready {
                        self.watch(*node, *epoch, now);
                    } else {
                        self.forget(*node);
                    }
                }
                Signal::NodeRemoved(node) => self.forget(*node),
                Signal::AllocsDesired { node, .. } => {
                    let record = applied.snapshot.node(*node);
                    let ready = record.filter(|it| it.node.status == NodeStatus::Ready);
                    if let Some(record) = ready {
                        self.watch(*node, record.session.epoch, now);
                    }
                }
                _ => {}
            }
        }
    }

    fn on_unheard(&mut self, _: Duration, now: Now) {
        self.on_stuck(now);
    }

    fn poll(
        &mut self,
        snapshot: &Snapshot,
        _: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        let nodes = self.poll_expired(snapshot, now);
        (!nodes.is_empty()).then_some(Effect::Command(Command::PendingExpired { nodes }))
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.nodes.first()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controlplane_state::Command;
    use controlplane_state::command::PlanApply;
    use hack_testkit::{World, allocs, jobs, nodes};
    use protocol_model::{AllocId, ClientStatus, JobType};

    use super::*;

    fn now(world: &World) -> Now {
        let wall = world.now();
        Now {
            monotonic: Duration::from_nanos(u64::try_from(wall.0).expect("after 1970")),
            wall,
        }
    }

    fn place(world: &mut World, job_type: JobType, node: NodeId) -> AllocId {
        let job = jobs::job(job_type, "web", 1);
        let key = job.key();
        world.register(job);
        let alloc = allocs::allocation(&world.snapshot(), &key, node);
        let id = alloc.id;
        world.expect(Command::PlanApply(Box::new(PlanApply {
            placed: vec![Arc::new(alloc)],
            ..PlanApply::default()
        })));
        id
    }

    fn scene(job_type: JobType) -> (World, PendingAllocs, NodeId, AllocId) {
        let mut world = World::new();
        let node = world.add_node(nodes::node(1));
        let alloc = place(&mut world, job_type, node);
        let mut pending = PendingAllocs::default();
        pending.watch(node, world.epoch(node), now(&world));
        (world, pending, node, alloc)
    }

    fn poll(pending: &mut PendingAllocs, world: &World) -> Vec<AllocId> {
        let expired = pending.poll_expired(&world.snapshot(), now(world));
        expired.into_iter().flat_map(|it| it.allocs).collect()
    }

    #[test]
    fn what_a_node_says_nothing_of_is_due_after_a_minute_and_again_until_it_is_done() {
        let (mut world, mut pending, node, alloc) = scene(JobType::Service);
        world.wait(Duration::from_secs(59));
        assert!(poll(&mut pending, &world).is_empty());
        world.wait(Duration::from_secs(3));
        assert_eq!(poll(&mut pending, &world), [alloc]);
        world.wait(AGAIN_AFTER);
        assert_eq!(poll(&mut pending, &world), [alloc]);
        world.expect(Command::PendingExpired {
            nodes: vec![Unaccepted {
                node,
                epoch: world.epoch(node),
                allocs: vec![alloc],
            }],
        });
        world.wait(AGAIN_AFTER);
        assert!(poll(&mut pending, &world).is_empty());
        assert_eq!(pending.poll_timeout(), None);
    }

    #[test]
    fn what_a_node_spoke_of_is_accepted_however_long_it_takes_to_start() {
        let (mut world, mut pending, _, alloc) = scene(JobType::Service);
        world.report(alloc, ClientStatus::Pending);
        world.wait(Duration::from_secs(3600));
        assert!(poll(&mut pending, &world).is_empty());
    }

    #[test]
    fn what_runs_on_every_node_is_not_moved() {
        let (mut world, mut pending, ..) = scene(JobType::System);
        world.wait(Duration::from_secs(3600));
        assert!(poll(&mut pending, &world).is_empty());
    }

    #[test]
    fn what_came_later_has_all_of_its_time() {
        let (mut world, mut pending, node, first) = scene(JobType::Service);
        world.report(first, ClientStatus::Running);
        world.wait(Duration::from_secs(50));
        let second = place(&mut world, JobType::Service, node);
        pending.watch(node, world.epoch(node), now(&world));
        world.wait(Duration::from_secs(30));
        assert!(poll(&mut pending, &world).is_empty());
        world.wait(Duration::from_secs(31));
        assert_eq!(poll(&mut pending, &world), [second]);
    }
    #[test]
    fn more_nodes_than_one_turn_looks_at_are_looked_at_in_the_next() {
        let mut world = World::new();
        let mut pending = PendingAllocs::default();
        let mut placed = Vec::new();
        for number in 0..=u8::try_from(LOOKS_MAX).expect("few") {
            let node = world.add_node(nodes::node(1 + number));
            pending.watch(node, world.epoch(node), now(&world));
            if usize::from(number) % LOOKS_MAX == 0 {
                placed.push(place(&mut world, JobType::Service, node));
            }
        }
        world.wait(ACCEPTED_WITHIN + Duration::from_secs(2));
        let mut found = Vec::new();
        for _ in 0..2 {
            assert!(
                pending
                    .poll_timeout()
                    .is_some_and(|due| due <= now(&world).monotonic)
            );
            found.push(poll(&mut pending, &world).len());
        }
        assert_eq!(found, [1, 1]);
    }

    #[test]
    fn what_could_not_be_said_because_the_log_was_stuck_may_be_said_afterwards() {
        let (mut world, mut pending, _, alloc) = scene(JobType::Service);
        for _ in 0..100 {
            pending.on_stuck(now(&world));
            world.wait(Duration::from_secs(1));
        }
        world.wait(ACCEPTED_WITHIN / 2 - Duration::from_secs(2));
        assert!(poll(&mut pending, &world).is_empty());
        world.wait(ACCEPTED_WITHIN);
        assert_eq!(poll(&mut pending, &world), [alloc]);
    }
}
