//! Whether the healed cluster has come to rest: every server at one index, every node ready, every
//! job as it is wanted, no evaluation pending, and what is believed is what the hosts do.

use std::collections::BTreeSet;

use controlplane_state::Snapshot;
use hack_sim::schedule::jobs::Kind;
use protocol_model::{Allocation, ClientStatus, DesiredStatus, EvalStatus, JobKey, NodeStatus};

use super::World;
use crate::eyes::View;
use crate::schedule::op::usual;
use crate::schedule::{NODES, SERVERS};

impl World {
    /// What is not at rest yet; `None` = everything is.
    pub(super) fn unrest(&self) -> Option<String> {
        if !self.clients.all_done() {
            return Some("wishes are not acknowledged".to_owned());
        }
        let view = self.eyes.view();
        servers(&view)
            .or_else(|| unready(&view.newest))
            .or_else(|| pending(&view.newest))
            .or_else(|| self.unfinished(&view.newest))
            .or_else(|| difference(&view))
    }

    fn unfinished(&self, state: &Snapshot) -> Option<String> {
        let kinds = self.schedule.jobs.iter().enumerate();
        kinds
            .filter_map(|(job, kind)| unfinished(state, job, *kind))
            .next()
    }
}

fn servers(view: &View) -> Option<String> {
    let indexes: BTreeSet<u64> = view.states().map(|(_, state)| state.index()).collect();
    let all = view.states().count() == usize::from(SERVERS);
    let same = indexes.len() == 1 && indexes.contains(&view.newest.index());
    (!all || !same).then(|| format!("servers are at {indexes:?} of {}", view.newest.index()))
}

fn unready(state: &Snapshot) -> Option<String> {
    let ready = state
        .nodes()
        .filter(|record| record.node.status == NodeStatus::Ready)
        .count();
    (ready != usize::from(NODES)).then(|| format!("{ready} nodes are ready"))
}

fn pending(state: &Snapshot) -> Option<String> {
    let open = |status: EvalStatus| matches!(status, EvalStatus::Pending | EvalStatus::Blocked);
    let eval = state.evals().find(|eval| open(eval.status))?;
    Some(format!(
        "an evaluation of {} is {:?} since {}",
        eval.job_id, eval.status, eval.modify_index
    ))
}

fn unfinished(state: &Snapshot, job: usize, kind: Kind) -> Option<String> {
    let key = JobKey::new("default", hack_sim::schedule::jobs::name(job));
    let version = state.job(&key).map(|job| job.version);
    let allocs: Vec<&Allocation> = state.allocs_by_job(&key).map(AsRef::as_ref).collect();
    let live: Vec<_> = allocs.iter().filter(|it| !it.terminal()).collect();
    let wanted = |status: ClientStatus| {
        allocs
            .iter()
            .filter(|it| it.desired_status == DesiredStatus::Run && it.client_status == status)
            .count()
    };
    let running = wanted(ClientStatus::Running);
    if kind == Kind::Batch {
        let done = wanted(ClientStatus::Complete);
        let enough = usual(kind) as usize;
        return (!live.is_empty() || done < enough)
            .then(|| format!("{key}: {done} done, {} live of {enough}", live.len()));
    }
    let enough = match kind {
        Kind::System | Kind::SystemWindow => usize::from(NODES),
        kind => usual(kind) as usize,
    };
    if let Some(old) = live.iter().find(|it| Some(it.job_version) != version) {
        return Some(format!("{key}: {} is of an older version", old.id.short()));
    }
    (running != enough || live.len() != running)
        .then(|| format!("{key}: {running} run, {} live of {enough}", live.len()))
}

/// Where the control plane and a host do not agree.
fn difference(view: &View) -> Option<String> {
    let runs: BTreeSet<_> = view
        .running()
        .map(|(host, run)| (host, run.alloc))
        .collect();
    let believed: BTreeSet<_> = view
        .newest
        .allocs()
        .filter(|alloc| {
            alloc.client_status == ClientStatus::Running
                && alloc.desired_status == DesiredStatus::Run
        })
        .filter_map(|alloc| Some((*view.ids.get(&alloc.node_id)?, alloc.id)))
        .collect();
    if let Some((host, alloc)) = runs.difference(&believed).next() {
        return Some(format!("n{host} runs {}, unbelieved", alloc.short()));
    }
    let (host, alloc) = believed.difference(&runs).next()?;
    Some(format!("n{host} does not run {}", alloc.short()))
}
