//! `/v1/job/:id/plan`: what registering a job would do, found out by doing it to a copy of the
//! state that nobody else sees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_scheduler::{
    Decision, GroupReport, Miss, Scratch, explain, memory_warnings, schedule, spread_warnings,
};
use controlplane_state::command::JobRegister;
use controlplane_state::{Command, Outcome, Snapshot, Stamped, State};
use protocol_api::jobs::{
    Annotations, DesiredUpdates, DiffType, FilteredNodes, GroupExplanation, JobDiff, JobPlan,
    JobRequest, NearMiss,
};
use protocol_model::{AllocationListStub, EvalTrigger, Evaluation, Job, ListResources, UnixNanos};
use uuid::Uuid;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::job_diff;
use super::job_register::{Prepared, evaluation, prepare, warnings_and};

pub(super) async fn plan(ask: &Ask) -> Answered {
    let id = ask.parameter("id");
    let request: JobRequest = ask.json()?;
    let wants_diff = request.diff;
    let Prepared { job, .. } = prepare(ask, request.job, Some(id)).await?;
    let snapshot = ask.consistent().await?;
    let index = snapshot.index();
    let old = snapshot.job(&job.key()).cloned();
    // Before the dry run, which templates do not have.
    snapshot.check_job(&job, None)?;
    let mut warnings = memory_warnings(&snapshot, &job);
    warnings.extend(spread_warnings(&snapshot, &job));
    let warnings = warnings_and(&job, warnings);
    let mut diff = wants_diff.then(|| job_diff::job(old.as_deref(), &job));
    let now = ask.now();
    let next_periodic_launch = next_launch(&job, now);
    let is_template = job.is_template();
    // Scheduling is work for a processor, not for a thread that serves sockets.
    let trial = tokio::task::spawn_blocking(move || dry_run(&snapshot, job, now));
    let trial = trial
        .await
        .map_err(|error| HttpError::internal(error.to_string()))??;
    let Trial {
        mut decision,
        explanation,
        preempted,
    } = trial;
    if let (Some(diff), false) = (&mut diff, is_template) {
        annotate(diff, &decision.groups);
    }
    let answer = JobPlan {
        annotations: annotations(&decision, preempted),
        created_evals: created_evals(&mut decision),
        failed: decision.failed,
        explanation,
        next_periodic_launch,
        job_modify_index: old.map_or(0, |job| job.job_modify_index),
        diff,
        warnings,
        index,
    };
    ask.answer(&answer, index)
}

/// The effects of registering a job, or a launch of it.
struct Trial {
    decision: Decision,
    explanation: BTreeMap<String, GroupExplanation>,
    preempted: Vec<AllocationListStub>,
}

/// When a job would be launched first, were it registered now.
fn next_launch(job: &Job, now: UnixNanos) -> Option<UnixNanos> {
    let periodic = job.periodic.as_ref().filter(|_| job.launches_by_time())?;
    // Validation refused a schedule that cannot be read.
    periodic.schedule().ok()?.next(now)
}

/// The job that is tried of a template: as each launch or dispatch registers it. Its id is none
/// that a launch has.
fn as_launched(job: Job) -> Job {
    if !job.is_template() {
        return job;
    }
    let id = format!("{}/plan", job.id);
    Job {
        name: id.clone(),
        id,
        periodic: None,
        parameterized_job: None,
        ..job
    }
}

/// Registers the job in a copy of the state, schedules its evaluation there, and explains the
/// result.
fn dry_run(snapshot: &Snapshot, job: Job, now: UnixNanos) -> Result<Trial, HttpError> {
    let job = as_launched(job);
    let key = job.key();
    let mut state = State::from_snapshot(snapshot);
    let mut eval = evaluation(&job, 0, EvalTrigger::JobRegister, now);
    eval.annotate_plan = true;
    let id = eval.id;
    let spec = job.spec_hash();
    let command = Command::JobRegister(JobRegister {
        job: Arc::new(job),
        spec,
        eval: Some(eval),
        enforce_index: None,
        submission: None,
    });
    let seed = *Uuid::new_v4().as_bytes();
    let applied = state.apply(snapshot.index() + 1, Stamped { now, seed, command });
    if let Outcome::Refused(refusal) = applied.outcome {
        return Err(refusal.into());
    }
    let after = state.snapshot();
    let eval = after
        .eval(id)
        .ok_or_else(|| HttpError::internal("the dry run made no evaluation"))?;
    let mut scratch = Scratch::new();
    let decision = schedule(&after, eval, seed, &mut scratch, now);
    let command = Command::PlanApply(Box::new(decision.plan.clone()));
    let applied = state.apply(snapshot.index() + 2, Stamped { now, seed, command });
    if let Outcome::Refused(refusal) = applied.outcome {
        return Err(refusal.into());
    }
    let planned = state.snapshot();
    let unplaced: BTreeSet<String> = decision.failed.keys().cloned().collect();
    let explained = planned.job(&key).map(|job| {
        let groups = explain(&planned, job, &unplaced, &mut scratch).into_iter();
        groups.map(|(name, group)| (name, shown(group))).collect()
    });
    Ok(Trial {
        preempted: preempted(&after, &decision),
        decision,
        explanation: explained.unwrap_or_default(),
    })
}

fn shown(group: controlplane_scheduler::GroupExplanation) -> GroupExplanation {
    let controlplane_scheduler::GroupExplanation { filtered, misses } = group;
    let filtered = filtered.into_iter();
    let misses = misses.into_iter();
    GroupExplanation {
        filtered: filtered
            .map(|(reason, nodes)| FilteredNodes { reason, nodes })
            .collect(),
        near_misses: misses
            .map(
                |Miss {
                     node,
                     name,
                     missing,
                 }| NearMiss {
                    node_id: node,
                    node_name: name,
                    missing,
                },
            )
            .collect(),
    }
}

/// The evaluations that would go on with what this one leaves: a blocked one, delayed ones.
fn created_evals(decision: &mut Decision) -> Vec<Evaluation> {
    let planned = decision.plan.eval_id;
    let mut evals = std::mem::take(&mut decision.plan.evals);
    evals.retain(|eval| Some(eval.id) != planned);
    evals
}

fn annotations(decision: &Decision, preempted: Vec<AllocationListStub>) -> Annotations {
    let groups = decision.groups.iter();
    Annotations {
        groups: groups
            .map(|(name, report)| (name.clone(), desired(*report)))
            .collect(),
        preempted: (!preempted.is_empty()).then_some(preempted),
    }
}

/// The allocations that would be evicted, as they are now.
fn preempted(snapshot: &Snapshot, decision: &Decision) -> Vec<AllocationListStub> {
    let ids = decision.plan.preempted.iter().map(|victim| victim.id);
    let allocs = ids.filter_map(|id| snapshot.alloc(id));
    allocs
        .map(|alloc| {
            let job = snapshot.job_of_alloc(alloc);
            alloc.stub(job.as_deref(), ListResources::Omit)
        })
        .collect()
}

fn desired(report: GroupReport) -> DesiredUpdates {
    let GroupReport {
        place,
        canary,
        migrate,
        stop,
        in_place,
        destructive,
        ignore,
        reschedule_now,
        reschedule_later,
        disconnect,
        reconnect,
        preemptions,
    } = report;
    DesiredUpdates {
        ignore,
        place,
        migrate,
        stop,
        in_place_update: in_place,
        destructive_update: destructive,
        canary,
        preemptions,
        disconnect,
        reconnect,
        reschedule_now,
        reschedule_later,
    }
}

/// Says beside each group's difference what it does to allocations, in the words of `plan`.
fn annotate(diff: &mut JobDiff, groups: &BTreeMap<String, GroupReport>) {
    for group in &mut diff.task_groups {
        let Some(report) = groups.get(&group.name) else {
            continue;
        };
        let counted = [
            ("ignore", report.ignore),
            ("create", report.place),
            ("canary", report.canary),
            ("destroy", report.stop),
            ("migrate", report.migrate),
            ("in-place update", report.in_place),
            ("create/destroy update", report.destructive),
            ("reschedule", report.reschedule_now),
        ];
        group.updates = counted
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(action, count)| (action.to_owned(), count))
            .collect();
        for field in group
            .fields
            .iter_mut()
            .filter(|field| field.name == "Count")
        {
            let fewer = report.stop > 0;
            let forced = if fewer {
                "forces destroy"
            } else {
                "forces create"
            };
            field.annotations.push(forced.to_owned());
        }
        for task in &mut group.tasks {
            let forced = match task.diff_type {
                DiffType::Added => Some("forces create"),
                DiffType::Deleted => Some("forces destroy"),
                DiffType::Edited if report.destructive + report.canary > 0 => {
                    Some("forces create/destroy update")
                }
                DiffType::Edited if report.in_place > 0 => Some("forces in-place update"),
                DiffType::Edited | DiffType::None => None,
            };
            task.annotations.extend(forced.map(str::to_owned));
        }
    }
}
