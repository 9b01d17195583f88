//! Whether the healed cluster has come to rest: every node ready, every job as it is wanted, and
//! what the control plane believes is what the hosts do.

use protocol_model::{
    Allocation, ClientStatus, DeploymentStatus, DesiredStatus, JobKey, JobStatus, NodeStatus,
};

use super::World;
use crate::node_ids::{node_id, node_ix};
use crate::schedule::jobs::{self, Kind};

impl World {
    /// What is not at rest yet; `None` = everything is.
    pub(super) fn unrest(&self) -> Option<String> {
        if self.clients.open > 0 {
            return Some(format!("{} wishes are not acknowledged", self.clients.open));
        }
        self.unready_node()
            .or_else(|| self.unfinished_job())
            .or_else(|| self.unfinished_dispatch())
            .or_else(|| self.unfinished_key())
            .or_else(|| self.unfinished_lock())
            .or_else(|| self.difference())
    }

    fn unready_node(&self) -> Option<String> {
        (0..self.schedule.nodes).find_map(|ix| {
            let Some(record) = self.state().node(node_id(ix)) else {
                return Some(format!("n{ix} is not registered"));
            };
            let status = record.node.status;
            let core = self.nodes[ix as usize].core.as_ref();
            let live = core.and_then(|core| core.session().live_epoch());
            let same = live.is_some_and(|epoch| epoch.0 == record.session.epoch.0);
            let (told, is) = (&record.node.meta, &self.nodes[ix as usize].facts.meta);
            if told != is {
                return Some(format!("n{ix} is labelled {is:?} and known as {told:?}"));
            }
            (status != NodeStatus::Ready || !same).then(|| {
                format!(
                    "n{ix} is {} (epoch {}), its own is {live:?}",
                    status.as_str(),
                    record.session.epoch
                )
            })
        })
    }

    fn unfinished_job(&self) -> Option<String> {
        let ready = self.schedule.nodes;
        for (job, wanted) in self.clients.wanted.iter().enumerate() {
            let key = JobKey::new("default", jobs::name(job));
            let kind = self.schedule.jobs[job];
            if jobs::is_template(kind) {
                // Launches go on; each is a job of its own.
                let known = self.state().job(&key).is_some();
                match wanted {
                    Some(_) if !known => return Some(format!("{key} is not registered")),
                    Some(_) | None => continue,
                }
            }
            let allocs: Vec<&Allocation> = self
                .state()
                .allocs_by_job(&key)
                .map(AsRef::as_ref)
                .collect();
            let live = allocs.iter().filter(|it| !it.terminal()).count();
            let running = allocs.iter().filter(|it| {
                it.desired_status == DesiredStatus::Run && it.client_status == ClientStatus::Running
            });
            let done = allocs.iter().filter(|it| {
                kind == Kind::Batch
                    && it.desired_status == DesiredStatus::Run
                    && it.client_status == ClientStatus::Complete
            });
            let (running, done) = (running.count(), done.count());
            let enough = match (wanted, kind) {
                (None, _) => 0,
                (Some(_), Kind::System | Kind::SystemWindow) => ready as usize,
                (Some(count), _) => *count as usize,
            };
            let outdated = allocs.iter().find(|it| {
                let version = self.state().job(&key).map(|job| job.version);
                kind != Kind::Batch && !it.terminal() && Some(it.job_version) != version
            });
            if let Some(alloc) = outdated {
                return Some(format!(
                    "{key}: {} is of an older version",
                    alloc.id.short()
                ));
            }
            let rollout = self.state().latest_deployment(&key);
            let unfinished = rollout.filter(|it| it.status != DeploymentStatus::Successful);
            if let Some(rollout) = unfinished
                && wanted.is_some()
            {
                return Some(format!(
                    "{key}: the rollout of v{} is {:?}",
                    rollout.job_version, rollout.status
                ));
            }
            // A batch job that is done is forgotten in the end.
            let known = self.state().job(&key).is_some();
            if kind == Kind::Batch && !known && allocs.is_empty() {
                continue;
            }
            let asked = wanted.is_some();
            // What ran for earlier versions of a batch job stays done.
            let adds_up = running + done == enough || (kind == Kind::Batch && done > enough);
            if (asked && !known) || live != running || !adds_up {
                return Some(format!(
                    "{key} ({kind:?}): {running} running, {done} done, {live} live of {enough}"
                ));
            }
        }
        None
    }

    /// A job that a dispatch launched runs to its end, whatever became of its template.
    fn unfinished_dispatch(&self) -> Option<String> {
        let mut dispatched = self.state().jobs().filter(|(_, job)| job.dispatched);
        dispatched.find_map(|(key, job)| {
            let allocs = || self.state().allocs_by_job(key);
            let live = allocs().filter(|it| !it.terminal()).count();
            let done = allocs().any(|it| it.client_status == ClientStatus::Complete);
            let over = job.status == JobStatus::Dead && live == 0;
            let forgotten = over && allocs().next().is_none();
            let unfinished = !(over && done || forgotten);
            unfinished.then(|| format!("{key} is {:?}, {live} live, done: {done}", job.status))
        })
    }

    /// Where the control plane and a host do not agree.
    fn difference(&self) -> Option<String> {
        for alloc in self.state().allocs() {
            let ix = node_ix(alloc.node_id);
            let host = &self.nodes[ix as usize];
            let lives = host.keeper.live().any(|run| run.alloc == alloc.id);
            let believed = alloc.client_status == ClientStatus::Running
                && alloc.desired_status == DesiredStatus::Run;
            if lives != believed {
                return Some(format!(
                    "allocation {} on n{ix}: the state says {} {:?}, on the host it {}",
                    alloc.id.short(),
                    alloc.client_status.as_str(),
                    alloc.desired_status,
                    if lives { "runs" } else { "does not run" }
                ));
            }
            let Some(core) = &host.core else {
                continue;
            };
            let said = core.alloc_status(alloc.id).map(|it| it.client_status);
            let given_up = alloc.client_status == ClientStatus::Lost;
            // The last word may have been in the record that was damaged.
            let forgot = host.journal.damaged && alloc.client_terminal();
            let excused = given_up || forgot;
            if said.is_some_and(|said| said != alloc.client_status) && !excused {
                return Some(format!(
                    "allocation {} on n{ix}: the state says {}, the node {said:?}",
                    alloc.id.short(),
                    alloc.client_status.as_str()
                ));
            }
        }
        for (ix, host) in self.nodes.iter().enumerate() {
            let unknown = host
                .keeper
                .live()
                .find(|run| self.state().alloc(run.alloc).is_none());
            if let Some(run) = unknown {
                return Some(format!("n{ix} runs {run}, which the state does not know"));
            }
        }
        None
    }
}
