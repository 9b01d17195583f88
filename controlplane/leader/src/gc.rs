//! Garbage collection: what is over for long enough to be forgotten. Each pass names candidates;
//! the replicated state checks each name again.

use std::collections::BTreeSet;
use std::time::Duration;

use controlplane_state::Snapshot;
use controlplane_state::command::GcCollect;
use protocol_model::{EvalId, JobStatus, JobType, NodeStatus, UnixNanos};

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
        let referred = snapshot
            .allocs_by_deployment(deployment.id)
            .next()
            .is_some();
        if !deployment.status.is_active()
            && !referred
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
        if job.status != JobStatus::Dead || (is_template(job) && !job.stop) {
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

fn is_template(job: &protocol_model::Job) -> bool {
    job.periodic.is_some() || job.parameterized_job.is_some()
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
            // The tracker of a failed one that was not replaced yet says how often it was tried.
            let awaits = alloc.followup_eval_id.is_some() && alloc.next_allocation.is_none();
            !alloc.client_terminal()
                || now.saturating_since(alloc.modify_time) < age
                || (awaits && job.is_some_and(|job| !job.stop))
        });
        if !needed && allocs.len() < *left {
            *left -= 1 + allocs.len();
            found.evals.push(eval.id);
            found.allocs.extend(allocs.iter().map(|alloc| alloc.id));
        }
    }
}
