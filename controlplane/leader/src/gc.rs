//! Garbage collection: what is over for long enough to be forgotten. What may be collected at all
//! is the state's to say, and it is asked here with the very questions that it asks again when the
//! command is applied: a name that it would refuse would be named in every pass, for ever.

use std::collections::BTreeSet;
use std::time::Duration;

use controlplane_state::command::GcCollect;
use controlplane_state::{Command, Snapshot};
use protocol_model::{EvalId, JobType, NodeStatus, UnixNanos};

use crate::part::{Effect, LeaderPart};
use crate::time::Now;

/// Objects named in one command, so that applying it never pauses readers for long.
pub const COLLECT_MAX: usize = 2000;

const LOOK_EVERY_MIN: Duration = Duration::from_secs(1);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(60);

/// How long what is over is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcThresholds {
    /// Finished evaluations with their allocations; those of batch jobs are kept 24 times as long,
    /// so that results can be read. What is a result of the job's present version stays as long as
    /// the job: it is what keeps the job from running again.
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

    /// How often garbage is looked for: every minute, or so often that nothing is kept for half as
    /// long again as somebody asked for; never more than once a second.
    pub fn look_every(&self) -> Duration {
        let Self {
            evals,
            jobs,
            nodes,
            deployments,
        } = *self;
        let shortest = evals.min(jobs).min(nodes).min(deployments);
        (shortest / 2).clamp(LOOK_EVERY_MIN, LOOK_EVERY_MAX)
    }
}

/// When to look for garbage, as a part of the leader.
#[derive(Debug)]
pub(crate) struct Garbage {
    keep: GcThresholds,
    due: Duration,
}

impl Garbage {
    pub(crate) fn new(keep: GcThresholds, now: Now) -> Self {
        let due = now.monotonic + keep.look_every();
        Self { keep, due }
    }
}

impl LeaderPart for Garbage {
    fn poll(
        &mut self,
        snapshot: &Snapshot,
        _: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        if now.monotonic < self.due {
            return None;
        }
        let found = collect(snapshot, &self.keep, snapshot.now().max(now.wall));
        // There may be more: look again soon, but let others go first.
        let wait = match &found {
            Some(_) => LOOK_EVERY_MIN,
            None => self.keep.look_every(),
        };
        self.due = now.monotonic + wait;
        found.map(Command::GcCollect).map(Effect::Command)
    }

    fn poll_timeout(&self) -> Option<Duration> {
        Some(self.due)
    }
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
        if !over || now.saturating_since(ended) < keep.jobs {
            continue;
        }
        let size = 1 + evals.len() + allocs.len();
        if size <= *left {
            *left -= size;
            found.evals.extend(evals.iter().map(|eval| eval.id));
        } else if *left == COLLECT_MAX {
            // Nobody's, once the job is gone: what is not named now is found with the evaluations.
            *left = 0;
        } else {
            continue;
        }
        found.jobs.push(key.clone());
        let allocs = allocs.iter().take(COLLECT_MAX - 1);
        found.allocs.extend(allocs.map(|alloc| alloc.id));
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
        // A batch job's allocations are its results.
        let results = eval.job_type == JobType::Batch && snapshot.job(&eval.job_key()).is_some();
        let age = if results { keep.evals * 24 } else { keep.evals };
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
        if needed {
            continue;
        }
        // One that placed very much goes in several passes, and last of all itself.
        let count = allocs.len().min(*left);
        *left -= count;
        found
            .allocs
            .extend(allocs.iter().take(count).map(|alloc| alloc.id));
        if count == allocs.len() && *left > 0 {
            *left -= 1;
            found.evals.push(eval.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::Command;
    use controlplane_state::command::{AllocChange, Change, PlanApply};
    use hack_testkit::{World, allocs, jobs, nodes};
    use protocol_model::{AllocId, Allocation, ClientStatus, EvalStatus, NodeId};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn garbage_is_looked_for_every_minute_and_sooner_where_little_is_kept() {
        let keep = |seconds| GcThresholds {
            evals: Duration::from_secs(seconds),
            jobs: Duration::from_secs(4 * 3600),
            nodes: Duration::from_secs(24 * 3600),
            deployments: Duration::from_secs(3600),
        };
        let every = |seconds| keep(seconds).look_every();
        assert_eq!(every(3600), Duration::from_secs(60));
        assert_eq!(every(40), Duration::from_secs(20));
        assert_eq!(every(0), Duration::from_secs(1));
    }

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

    /// `bent` registered as `eval`, with so many allocations on `node`.
    fn placed(world: &mut World, bent: protocol_model::Job, count: u32, node: NodeId) -> EvalId {
        let mut eval = world.register(bent);
        let alloc = allocs::allocation(&world.snapshot(), &eval.job_key(), node);
        let placed = (0..count).map(|number| {
            Arc::new(Allocation {
                id: AllocId::from_u128(u128::from(number) + (eval.id.0.as_u128() << 32)),
                eval_id: eval.id,
                name: Allocation::name_of("web", "group", number),
                ..alloc.clone()
            })
        });
        let placed = placed.collect();
        eval.status = EvalStatus::Complete;
        let id = eval.id;
        world.expect(Command::PlanApply(Box::new(PlanApply {
            eval_id: Some(id),
            placed,
            evals: vec![eval],
            ..PlanApply::default()
        })));
        id
    }

    /// Every evaluation that is pending is over.
    fn finish_evals(world: &mut World) {
        let snapshot = world.snapshot();
        let pending = snapshot.evals().filter(|eval| !eval.status.is_terminal());
        let evals = pending.map(|eval| protocol_model::Evaluation {
            status: EvalStatus::Complete,
            ..protocol_model::Evaluation::clone(eval)
        });
        let evals = evals.collect();
        world.expect(Command::EvalsUpsert { evals });
    }

    #[test]
    fn of_a_batch_job_that_lives_only_the_results_of_its_version_are_kept() {
        let mut world = World::new();
        let node = world.add_node(nodes::node(1));
        let batch = |count, priority| {
            let mut job = jobs::draft(JobType::Batch, "web", count);
            job.priority = priority;
            job.canonicalize();
            job
        };
        let older = placed(&mut world, batch(1, 50), 1, node);
        let newer = placed(&mut world, batch(2, 70), 2, node);
        let of = |world: &World, eval: EvalId| -> Vec<AllocId> {
            let snapshot = world.snapshot();
            snapshot.allocs_by_eval(eval).map(|it| it.id).collect()
        };
        let (old, new) = (of(&world, older), of(&world, newer));
        world.report(old[0], ClientStatus::Complete);
        world.report(new[0], ClientStatus::Complete);
        // The other one runs on, and the job lives.
        world.report(new[1], ClientStatus::Running);
        finish_evals(&mut world);
        let keep = GcThresholds {
            evals: Duration::from_secs(3600),
            ..GcThresholds::FORCED
        };
        world.wait(Duration::from_secs(23 * 3600));
        assert_eq!(collect(&world.snapshot(), &keep, world.now()), None);
        world.wait(Duration::from_secs(2 * 3600));
        let named = collect(&world.snapshot(), &keep, world.now()).expect("the older one");
        assert_eq!(named.allocs, old);
        assert!(named.evals.contains(&older) && !named.evals.contains(&newer));
        world.expect(Command::GcCollect(named));
        assert_eq!(of(&world, older), []);
        assert_eq!(of(&world, newer), new);
        assert_eq!(collect(&world.snapshot(), &keep, world.now()), None);
    }

    #[test]
    fn a_huge_job_goes_in_pieces() {
        let mut world = World::new();
        let node = world.add_node(nodes::node(1));
        let count = 2 * u32::try_from(COLLECT_MAX).expect("small") + 10;
        placed(
            &mut world,
            jobs::job(JobType::Service, "web", count),
            count,
            node,
        );
        let eval = world.deregister(&protocol_model::JobKey::new("default", "web"));
        world.silence(node);
        let snapshot = world.snapshot();
        let changed = snapshot.allocs().map(|alloc| AllocChange {
            id: alloc.id,
            change: Change::Stop {
                description: String::new(),
                client_status: Some(ClientStatus::Lost),
                followup_eval: None,
            },
        });
        let changed = changed.collect();
        world.expect(Command::PlanApply(Box::new(PlanApply {
            eval_id: Some(eval.id),
            changed,
            ..PlanApply::default()
        })));
        finish_evals(&mut world);
        for _ in 0..10 {
            let Some(named) = found(&world) else { break };
            let size = named.jobs.len() + named.allocs.len() + named.evals.len();
            assert!(size <= COLLECT_MAX, "{size}");
            world.expect(Command::GcCollect(named));
        }
        let left = world.snapshot();
        assert_eq!(left.jobs().count(), 0);
        assert_eq!((left.allocs().count(), left.evals().count()), (0, 0));
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
