//! Which disconnected nodes have no open disconnect window any more: those are down. When a window
//! ends is the state's to say, in its own time; here is only when to look.

use std::time::Duration;

use controlplane_state::{Command, SessionEpoch, Signal, Snapshot, WindowEnd};
use protocol_model::{EvalId, NodeId, NodeStatus};

use crate::deadlines::{AGAIN_AFTER, Due, NodeDeadlines};
use crate::liveness::EXPIRED_MAX;
use crate::part::{Applied, Effect, LeaderPart};
use crate::time::Now;

/// The longest and the shortest time to the next look at a window that is open: the clock that its
/// end is compared with may jump, and may stand still where the state's time is ahead of it.
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(60);
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(100);

/// When to look at every disconnected node.
#[derive(Debug)]
pub struct DisconnectWindows {
    nodes: NodeDeadlines,
    /// Nobody is looked at earlier.
    not_before: Duration,
}

impl DisconnectWindows {
    /// Watches nobody yet. A new leader looks at nobody before `not_before`, by the monotonic
    /// clock: nodes may be about to find it.
    pub fn new(not_before: Duration) -> Self {
        Self {
            nodes: NodeDeadlines::default(),
            not_before,
        }
    }

    /// A node is disconnected.
    pub fn watch(&mut self, node: NodeId, epoch: SessionEpoch, now: Now) {
        let deadline = now.monotonic.max(self.not_before);
        self.nodes.set(node, Due { epoch, deadline });
    }

    /// A node is not disconnected any more.
    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(node);
    }

    /// What is wanted of a node's allocations changed: its longest window may be another one.
    pub fn on_changed(&mut self, node: NodeId, now: Now) {
        if let Some(due) = self.nodes.due(node) {
            self.watch(node, due.epoch, now);
        }
    }

    /// Nodes whose windows are all over, at most [`EXPIRED_MAX`].
    pub fn poll_expired(&mut self, snapshot: &Snapshot, now: Now) -> Vec<(NodeId, SessionEpoch)> {
        // The state judges by a time that never goes back, and that is at least this.
        let time = snapshot.now().max(now.wall);
        let again = now.monotonic + AGAIN_AFTER;
        let mut expired = Vec::new();
        while expired.len() < EXPIRED_MAX
            && let Some((node, epoch, _)) =
                self.nodes
                    .take_overdue_as(NodeStatus::Disconnected, snapshot, now.monotonic)
        {
            let deadline = match snapshot.disconnect_windows_end(node) {
                Some(WindowEnd::At(end)) if end > time => {
                    let left = end.saturating_since(time);
                    now.monotonic + left.clamp(LOOK_AGAIN_MIN, LOOK_AGAIN_MAX)
                }
                // A scheduler is about to say so.
                Some(WindowEnd::NotBegun) => again,
                Some(WindowEnd::At(_)) | None => {
                    expired.push((node, epoch));
                    again
                }
            };
            self.nodes.set(node, Due { epoch, deadline });
        }
        expired
    }
}

impl LeaderPart for DisconnectWindows {
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
                    if *to == NodeStatus::Disconnected {
                        self.watch(*node, *epoch, now);
                    } else {
                        self.forget(*node);
                    }
                }
                Signal::NodeRemoved(node) => self.forget(*node),
                Signal::AllocsDesired { node, .. } => self.on_changed(*node, now),
                _ => {}
            }
        }
    }

    fn poll(
        &mut self,
        snapshot: &Snapshot,
        _: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        let nodes = self.poll_expired(snapshot, now);
        (!nodes.is_empty()).then_some(Effect::Command(Command::WindowExpired { nodes }))
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.nodes.first()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controlplane_state::Command;
    use controlplane_state::command::{AllocChange, Change, PlanApply};
    use hack_testkit::{World, allocs, jobs, nodes};
    use protocol_model::{DisconnectStrategy, JobKey, JobType};

    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn now(world: &World) -> Now {
        let wall = world.now();
        Now {
            monotonic: Duration::from_nanos(u64::try_from(wall.0).expect("after 1970")),
            wall,
        }
    }

    /// A disconnected node, with an allocation that tolerates that for [`WINDOW`].
    fn world() -> (World, NodeId, JobKey) {
        let mut world = World::new();
        let node = world.add_node(nodes::node(1));
        let mut job = jobs::draft(JobType::Service, "web", 1);
        job.task_groups[0].disconnect = Some(DisconnectStrategy {
            lost_after: Some(WINDOW),
            ..DisconnectStrategy::default()
        });
        job.canonicalize();
        let key = job.key();
        world.register(job);
        let alloc = allocs::allocation(&world.snapshot(), &key, node);
        world.expect(Command::PlanApply(Box::new(PlanApply {
            placed: vec![Arc::new(alloc)],
            ..PlanApply::default()
        })));
        world.silence(node);
        let status = world.snapshot().node(node).map(|it| it.node.status);
        assert_eq!(status, Some(NodeStatus::Disconnected));
        (world, node, key)
    }

    fn change(world: &mut World, key: &JobKey, change: Change) {
        let id = world.snapshot().allocs_by_job(key).map(|it| it.id).next();
        let id = id.expect("one");
        world.expect(Command::PlanApply(Box::new(PlanApply {
            changed: vec![AllocChange { id, change }],
            ..PlanApply::default()
        })));
    }

    /// Its window begins.
    fn begin(world: &mut World, key: &JobKey) {
        let begins = Change::Disconnect {
            description: String::new(),
            followup_eval: None,
        };
        change(world, key, begins);
    }

    fn watching(world: &World, node: NodeId) -> DisconnectWindows {
        let mut windows = DisconnectWindows::new(Duration::ZERO);
        windows.watch(node, world.epoch(node), now(world));
        windows
    }

    fn poll(windows: &mut DisconnectWindows, world: &World) -> Vec<NodeId> {
        let expired = windows.poll_expired(&world.snapshot(), now(world));
        expired.into_iter().map(|(node, _)| node).collect()
    }

    #[test]
    fn a_node_is_down_when_its_longest_window_is_over_and_not_before() {
        let (mut world, node, key) = world();
        begin(&mut world, &key);
        let mut windows = watching(&world, node);
        assert!(poll(&mut windows, &world).is_empty());
        let due = windows.poll_timeout().expect("it is looked at again");
        assert!(due <= now(&world).monotonic + WINDOW);
        world.wait(WINDOW - Duration::from_secs(1));
        assert!(poll(&mut windows, &world).is_empty());
        world.wait(Duration::from_secs(1));
        assert_eq!(poll(&mut windows, &world), [node]);
        let nodes = vec![(node, world.epoch(node))];
        world.expect(Command::WindowExpired { nodes });
        world.wait(WINDOW);
        assert!(poll(&mut windows, &world).is_empty(), "it is down");
        assert_eq!(windows.poll_timeout(), None);
    }

    #[test]
    fn a_window_that_has_not_begun_is_open() {
        let (mut world, node, _) = world();
        let mut windows = watching(&world, node);
        world.wait(WINDOW * 2);
        assert!(poll(&mut windows, &world).is_empty());
        assert!(windows.poll_timeout().is_some(), "it is looked at again");
    }

    #[test]
    fn what_the_log_did_not_take_is_over_again() {
        let (mut world, node, key) = world();
        begin(&mut world, &key);
        let mut windows = watching(&world, node);
        world.wait(WINDOW);
        assert_eq!(poll(&mut windows, &world), [node]);
        assert!(poll(&mut windows, &world).is_empty());
        world.wait(AGAIN_AFTER);
        assert_eq!(poll(&mut windows, &world), [node]);
    }

    #[test]
    fn a_node_whose_last_tolerant_allocation_is_lost_is_looked_at_at_once() {
        let (mut world, node, key) = world();
        begin(&mut world, &key);
        let mut windows = watching(&world, node);
        assert!(poll(&mut windows, &world).is_empty());
        let lost = Change::Stop {
            description: String::new(),
            client_status: Some(protocol_model::ClientStatus::Lost),
            followup_eval: None,
        };
        change(&mut world, &key, lost);
        windows.on_changed(node, now(&world));
        assert_eq!(poll(&mut windows, &world), [node]);
    }

    #[test]
    fn a_new_leader_looks_at_nobody_early() {
        let (mut world, node, key) = world();
        begin(&mut world, &key);
        world.wait(WINDOW);
        let grace = Duration::from_secs(4);
        let mut windows = DisconnectWindows::new(now(&world).monotonic + grace);
        windows.watch(node, world.epoch(node), now(&world));
        windows.on_changed(node, now(&world));
        assert!(poll(&mut windows, &world).is_empty());
        world.wait(grace);
        assert_eq!(poll(&mut windows, &world), [node]);
    }
}
