//! Garbage collection: what is over for long enough to be forgotten. What may be collected at all
//! is the state's to say, and it is asked here with the very questions that it asks again when the
//! command is applied: a name that it would refuse would be named in every pass, for ever.

use std::collections::BTreeSet;
use std::time::Duration;

use controlplane_state::Snapshot;
use controlplane_state::command::GcCollect;
use protocol_model::{EvalId, JobType, NodeStatus, UnixNanos};

/// Objects named in one command, so that applying it never pauses readers for long.
pub const COLLECT_MAX: usize = 2000;

/// How long what is over is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcThresholds {
    /// Finished evaluations with their allocations; those of batch jobs are kept 24 times as long,
    /// so that results can be read.
    pub evals: Duration,
    /// Dead jobs.
    pub jobs: Duration,
    /// Nodes that are down and empty.
    pub nodes: Duration,
    /// Finished deployments.
    pub deployments: Duration,
}

impl GcThresholds {
    /// Everything that is over, now: `system gc`.
    pub const FORCED: Self = Self {
        evals: Duration::ZERO,
        jobs: Duration::ZERO,
        nodes: Duration::ZERO,
        deployments: Duration::ZERO,
    };
}

/// Names what may be collected, at most [`COLLECT_MAX`] objects; `None` where there is nothing.
pub fn collect(snapshot: &Snapshot, keep: &GcThresholds, now: UnixNanos) -> Option<GcCollect> {
    let mut found = GcCollect::default();
    let mut left = COLLECT_MAX;
    jobs(snapshot, keep, now, &mut found, &mut left);
    evals(snapshot, keep, now, &mut found, &mut left);
    let old = |since: UnixNanos, age: Duration| now.saturating_since(since) >= age;
    for deployment in snapshot.deployments() {
        if left == 0 {
            break;
        }
        if snapshot.deployment_is_collectable(deployment.id)
            && old(deployment.modify_time, keep.deployments)
        {
            found.deployments.push(deployment.id);
            left -= 1;
        }
    }
    for record in snapshot.nodes() {
        if left == 0 {
            break;
        }
        let node = &record.node;
        let since = UnixNanos(node.status_updated_at.saturating_mul(1_000_000_000));
        let empty = snapshot.allocs_on_node(node.id).next().is_none();
        if node.status == NodeStatus::Down && empty && old(since, keep.nodes) {
            found.nodes.push(node.id);
            left -= 1;
        }
    }
    (left < COLLECT_MAX).then_some(found)
}

/// Dead jobs with everything of theirs.
fn jobs(
    snapshot: &Snapshot,
    keep: &GcThresholds,
    now: UnixNanos,
    found: &mut GcCollect,
    left: &mut usize,
) {
    for (key, job) in snapshot.jobs() {
        if *left == 0 {
            return;
        }
        if !snapshot.job_is_collectable(key) {
            continue;
        }
        let evals: Vec<_> = snapshot.evals_by_job(key).collect();
        let allocs: Vec<_> = snapshot.allocs_by_job(key).collect();
        let ended = evals
            .iter()
            .map(|eval| eval.modify_time)
            .chain(allocs.iter().map(|alloc| alloc.modify_time))
            .max()
            .unwrap_or(job.submit_time);
        let over = evals.iter().all(|eval| eval.status.is_terminal())
            && allocs.iter().all(|alloc| alloc.client_terminal());
        let size = 1 + evals.len() + allocs.len();
        if over
            && now.saturating_since(ended) >= keep.jobs
            && (size <= *left || *left == COLLECT_MAX)
        {
            *left = left.saturating_sub(size);
            found.jobs.push(key.clone());
            found.evals.extend(evals.iter().map(|eval| eval.id));
            found.allocs.extend(allocs.iter().map(|alloc| alloc.id));
        }
    }
}

/// Finished evaluations whose allocations are all over and no longer needed.
fn evals(
    snapshot: &Snapshot,
    keep: &GcThresholds,
    now: UnixNanos,
    found: &mut GcCollect,
    left: &mut usize,
) {
    let named: BTreeSet<EvalId> = found.evals.iter().copied().collect();
    for eval in snapshot.evals() {
        if *left == 0 {
            return;
        }
        let job = snapshot.job(&eval.job_key());
        let batch = eval.job_type == JobType::Batch;
        // A batch job's allocations are its results, and what keeps it from running again.
        if batch && job.is_some_and(|job| !job.stop) {
            continue;
        }
        let age = if batch { keep.evals * 24 } else { keep.evals };
        if named.contains(&eval.id)
            || !eval.status.is_terminal()
            || now.saturating_since(eval.modify_time) < age
        {
            continue;
        }
        let allocs: Vec<_> = snapshot.allocs_by_eval(eval.id).collect();
        let needed = allocs.iter().any(|alloc| {
            !snapshot.alloc_is_collectable(alloc) || now.saturating_since(alloc.modify_time) < age
        });
        if !needed && allocs.len() < *left {
            *left -= 1 + allocs.len();
            found.evals.push(eval.id);
            found.allocs.extend(allocs.iter().map(|alloc| alloc.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::Command;
    use controlplane_state::command::PlanApply;
    use hack_testkit::{World, allocs, jobs, nodes};
    use protocol_model::{ClientStatus, EvalStatus};
    use std::sync::Arc;

    use super::*;

    /// A registered service whose evaluation is over, with one allocation that failed.
    fn failed(world: &mut World) -> protocol_model::AllocId {
        let node = world.add_node(nodes::node(1));
        let mut eval = world.register(jobs::job(JobType::Service, "web", 1));
        let mut alloc = allocs::allocation(&world.snapshot(), &eval.job_key(), node);
        alloc.eval_id = eval.id;
        let id = alloc.id;
        eval.status = EvalStatus::Complete;
        world.expect(Command::PlanApply(Box::new(PlanApply {
            eval_id: Some(eval.id),
            placed: vec![Arc::new(alloc)],
            evals: vec![eval],
            ..PlanApply::default()
        })));
        world.report(id, ClientStatus::Failed);
        id
    }

    fn found(world: &World) -> Option<GcCollect> {
        collect(&world.snapshot(), &GcThresholds::FORCED, world.now())
    }

    #[test]
    fn what_the_state_would_keep_is_not_named() {
        let mut world = World::new();
        failed(&mut world);
        world.wait(Duration::from_secs(86_400));
        assert_eq!(found(&world), None, "a reschedule starts from it");
    }

    #[test]
    fn a_failure_of_an_older_version_goes() {
        let mut world = World::new();
        let alloc = failed(&mut world);
        let mut newer = jobs::draft(JobType::Service, "web", 1);
        newer.priority = 70;
        newer.canonicalize();
        let mut eval = world.register(newer);
        eval.status = EvalStatus::Complete;
        world.expect(Command::EvalsUpsert { evals: vec![eval] });
        let named = found(&world).expect("nothing starts from it any more");
        assert_eq!(named.allocs, [alloc]);
        world.expect(Command::GcCollect(named));
        assert_eq!(found(&world), None, "the state took what was named");
    }
}
