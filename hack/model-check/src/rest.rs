//! Where everything is as it should be, and the way there when nothing goes wrong any more: every
//! message arrives, whatever was asked of the log is committed, whoever was killed starts again.

use protocol_model::{ClientStatus, DesiredStatus, NodeStatus};

use crate::action::Cost;
use crate::ids::NODE;
use crate::invariants::Violation;
use crate::world::World;

/// Steps to rest, at most: a handshake takes about twenty, and no state needs a dozen of them.
const STEPS_MAX: usize = 600;

impl World {
    /// Whether the node is ready, in a session that both sides mean, and everything that is wanted
    /// runs, nothing else does, and nobody has anything to say.
    pub fn at_rest(&self) -> bool {
        self.unrest().is_none()
    }

    /// What is not as it should be.
    pub fn unrest(&self) -> Option<String> {
        let Some(core) = &self.host.core else {
            return Some("the daemon is dead".to_owned());
        };
        let (status, epoch) = (self.node_status(), self.node_epoch());
        let live = core.session().live_epoch().map(|epoch| epoch.0);
        if status != Some(NodeStatus::Ready) || live != Some(epoch.0) {
            let status = status.map_or("unknown", |status| status.as_str());
            return Some(format!("{status} in {epoch}, the node means {live:?}"));
        }
        let on_the_way = self.conns.values();
        let mut on_the_way =
            on_the_way.filter(|it| !it.to_node.is_empty() || !it.to_server.is_empty());
        if on_the_way.next().is_some() || !self.log.pending.is_empty() {
            return Some("something is on its way".to_owned());
        }
        if self.due_eval().is_some() || self.other_owes() {
            return Some("an evaluation or a report is open".to_owned());
        }
        self.misplaced_job()
    }

    fn misplaced_job(&self) -> Option<String> {
        let state = self.log.state.tables();
        for (key, job) in state.jobs() {
            let allocs = state.allocs_by_job(key).filter(|it| {
                it.desired_status == DesiredStatus::Run && it.client_status == ClientStatus::Running
            });
            let wanted = usize::from(!job.stop);
            let running = allocs.count();
            let live = state.allocs_by_job(key).filter(|it| !it.terminal()).count();
            if running != wanted || live != wanted {
                return Some(format!("{key}: {running} running, {live} live of {wanted}"));
            }
        }
        for alloc in state.allocs_on_node(NODE) {
            let wanted = alloc.desired_status == DesiredStatus::Run && !alloc.client_terminal();
            let lives = self.host.keeper.live().any(|run| run.alloc == alloc.id);
            if lives != wanted {
                let (id, status) = (alloc.id.short(), alloc.client_status.as_str());
                let desired = alloc.desired_status;
                return Some(format!("{id}: {status}, {desired:?}, lives: {lives}"));
            }
        }
        None
    }

    /// Goes on without faults until everything is at rest. What must hold must hold on the way.
    ///
    /// # Errors
    /// What broke, or where it hangs.
    pub fn settle(&mut self) -> Result<(), Violation> {
        self.settle_past(|_| false)
    }

    /// As [`Self::settle`], to rest or to a state from which it is known to come.
    ///
    /// # Errors
    /// As there.
    pub fn settle_past(&mut self, mut known: impl FnMut(&Self) -> bool) -> Result<(), Violation> {
        self.quiet = false;
        for _ in 0..STEPS_MAX {
            if let Some(broken) = &self.broken {
                return Err(broken.clone());
            }
            if self.at_rest() || known(self) {
                return Ok(());
            }
            let mut free = self.enabled().into_iter();
            let Some((action, cost)) = free.find(|(_, cost)| *cost == Cost::Free) else {
                break;
            };
            self.step(action, cost);
        }
        Err(Violation {
            invariant: "comes_to_rest",
            what: self.unrest().unwrap_or_default(),
        })
    }
}
