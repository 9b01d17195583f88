//! Garbage collection removes what is really over, and nothing else.

use std::sync::Arc;

use controlplane_state::command::{GcCollect, PlanApply, Purge};
use controlplane_state::{Collected, Command, Outcome};
use protocol_model::{AllocId, ClientStatus, JobStatus, JobType};

use crate::harness::{Harness, job, says};

fn collect(cluster: &mut Harness, names: GcCollect) -> Collected {
    match cluster.apply(Command::GcCollect(names)).outcome {
        Outcome::Collected(collected) => collected,
        other => panic!("{other:?}"),
    }
}

fn everything(cluster: &Harness) -> GcCollect {
    let tables = cluster.tables();
    GcCollect {
        evals: tables.evals().map(|eval| eval.id).collect(),
        allocs: tables.allocs().map(|alloc| alloc.id).collect(),
        jobs: tables.jobs().map(|(key, _)| key.clone()).collect(),
        deployments: tables
            .deployments()
            .map(|deployment| deployment.id)
            .collect(),
        nodes: tables.nodes().map(|record| record.node.id).collect(),
    }
}

#[test]
fn nothing_that_lives_is_collected() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    cluster.place(&web.key(), node);
    let names = everything(&cluster);
    let collected = collect(&mut cluster, names);
    assert_eq!(
        collected,
        Collected {
            kept: 4,
            ..Collected::default()
        }
    );
}

#[test]
fn who_came_before_one_that_is_collected_is_followed_by_who_came_after_it() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let after = |cluster: &mut Harness, previous: Option<AllocId>| {
        let mut alloc = cluster.alloc_for(&web.key(), node, 100);
        alloc.previous_allocation = previous;
        let id = alloc.id;
        let plan = PlanApply {
            placed: vec![Arc::new(alloc)],
            ..PlanApply::default()
        };
        assert_eq!(cluster.plan(plan).outcome, Outcome::PlanApplied);
        id
    };
    let first = after(&mut cluster, None);
    let middle = after(&mut cluster, Some(first));
    let last = after(&mut cluster, Some(middle));
    assert_eq!(cluster.alloc(first).next_allocation, Some(middle));
    for id in [middle, last] {
        cluster.stop(id);
        cluster.report(node, vec![says(id, 1, ClientStatus::Complete)]);
        let next = cluster.alloc(id).next_allocation;
        let names = GcCollect {
            allocs: vec![id],
            ..GcCollect::default()
        };
        assert_eq!(collect(&mut cluster, names).allocs, 1);
        assert_eq!(cluster.alloc(first).next_allocation, next);
        assert_eq!(cluster.alloc(first).modify_index, cluster.index);
    }
    assert_eq!(cluster.alloc(first).next_allocation, None);
}

#[test]
fn a_stopped_job_goes_with_all_that_was_its_own() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    let eval = cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.deregister(&web.key(), Purge::Keep);
    cluster.stop(alloc);
    let finished = cluster.finished(eval);
    cluster.done(Command::EvalsUpsert {
        evals: vec![finished],
    });
    // The node has not confirmed the stop.
    let names = everything(&cluster);
    let early = collect(&mut cluster, names);
    assert_eq!((early.jobs, early.allocs, early.kept), (1, 0, 2));
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Complete)]);
    let names = everything(&cluster);
    assert_eq!(collect(&mut cluster, names).allocs, 1);
    assert_eq!(cluster.tables().allocs().count(), 0);
}

#[test]
fn a_service_that_nobody_stopped_stays_though_nothing_of_it_runs() {
    for (job_type, jobs) in [(JobType::Service, 0), (JobType::Batch, 1)] {
        let mut cluster = Harness::new();
        let mut idle = job("idle", job_type);
        idle.task_groups[0].count = Some(0);
        let eval = cluster.register(&idle);
        let finished = cluster.finished(eval);
        cluster.done(Command::EvalsUpsert {
            evals: vec![finished],
        });
        let status = cluster.tables().job(&idle.key()).map(|job| job.status);
        assert_eq!(status, Some(JobStatus::Dead));
        let names = everything(&cluster);
        let collected = collect(&mut cluster, names);
        assert_eq!((job_type, collected.jobs), (job_type, jobs));
    }
}

#[test]
fn a_batch_jobs_result_stays_while_the_job_is_wanted() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let batch = job("batch", JobType::Batch);
    cluster.register(&batch);
    let alloc = cluster.place(&batch.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Complete)]);
    let names = GcCollect {
        allocs: vec![alloc],
        ..GcCollect::default()
    };
    assert_eq!(collect(&mut cluster, names.clone()).kept, 1);
    cluster.deregister(&batch.key(), Purge::Keep);
    assert_eq!(collect(&mut cluster, names).allocs, 1);
}

#[test]
fn a_dead_node_goes_when_nothing_on_it_is_waited_for() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let names = GcCollect {
        nodes: vec![node],
        ..GcCollect::default()
    };
    assert_eq!(collect(&mut cluster, names.clone()).kept, 1);
    cluster.silent(node);
    assert_eq!(collect(&mut cluster, names).nodes, 1);
    assert!(cluster.tables().node(node).is_none());
}

#[test]
fn what_ended_is_kept_only_where_a_decision_needs_it() {
    use {ClientStatus::*, JobType::*};
    // Of the version that is wanted, and without a successor.
    for (job_type, status, collected) in [
        // How long a successor waits is counted from it.
        (System, Failed, 0),
        (System, Complete, 0),
        (Service, Failed, 0),
        (Service, Complete, 0),
        // Attempts and results.
        (Batch, Failed, 0),
        (Batch, Complete, 0),
        (Sysbatch, Failed, 0),
        (Sysbatch, Complete, 0),
    ] {
        let mut cluster = Harness::new();
        let node = cluster.join(1);
        let wanted = job("wanted", job_type);
        cluster.register(&wanted);
        let alloc = cluster.place(&wanted.key(), node);
        cluster.report(node, vec![says(alloc, 1, status)]);
        let names = GcCollect {
            allocs: vec![alloc],
            ..GcCollect::default()
        };
        let found = collect(&mut cluster, names).allocs;
        assert_eq!((job_type, status, found), (job_type, status, collected));
    }
}
