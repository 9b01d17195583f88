//! Reports of allocations.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::command::NodeBatch;
use controlplane_state::{
    BatchRejected, Command, ItemResult, Outcome, SessionEpoch, Signal, Table, UpdateClass,
};
use protocol_model::{
    AllocId, ClientStatus, DesiredStatus, EvalTrigger, JobType, NodeId, TaskEvent, TaskEventKind,
    TaskRunState, TaskState, UnixNanos,
};

use crate::harness::{Harness, has_signal, job, knock, says};

fn running() -> (Harness, NodeId, AllocId, protocol_model::JobKey) {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    let result = cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    assert_eq!(result.results, [ItemResult::Applied]);
    (cluster, node, alloc, web.key())
}

#[test]
fn a_report_changes_what_is_known_and_not_what_is_wanted() {
    let (cluster, _, alloc, _) = running();
    let alloc = cluster.alloc(alloc);
    assert_eq!(alloc.client_status, ClientStatus::Running);
    assert_eq!(alloc.modify_index, cluster.index);
    assert!(alloc.alloc_modify_index < cluster.index);
}

#[test]
fn an_older_revision_is_dropped_whatever_order_batches_arrive_in() {
    let (mut cluster, node, alloc, _) = running();
    let epoch = cluster.epoch(node);
    let batch = |class, seq, revision, status| NodeBatch {
        node,
        epoch,
        class,
        seq,
        reports: vec![says(alloc, revision, status)],
    };
    let newer = batch(UpdateClass::Urgent, 2, 5, ClientStatus::Failed);
    assert_eq!(cluster.batch(newer.clone()).results, [ItemResult::Applied]);
    let older = batch(UpdateClass::Typical, 1, 4, ClientStatus::Running);
    assert_eq!(cluster.batch(older).results, [ItemResult::Superseded]);
    assert_eq!(cluster.batch(newer).results, [ItemResult::Superseded]);
    assert_eq!(cluster.alloc(alloc).client_status, ClientStatus::Failed);
    let session = cluster.tables().node(node).expect("the node").session;
    assert_eq!(
        (session.applied_urgent_seq, session.applied_typical_seq),
        (2, 1)
    );
}

#[test]
fn a_failure_and_its_evaluation_are_one_entry() {
    let (mut cluster, node, alloc, key) = running();
    cluster.report(node, vec![says(alloc, 2, ClientStatus::Failed)]);
    assert!(
        cluster
            .pending(&key)
            .contains(&EvalTrigger::RetryFailedAlloc)
    );
    let summary = cluster.tables().job_summary(&key);
    assert_eq!(summary.groups["group"].counts.failed, 1);
}

/// The evaluations of a job of this type, after its one allocation ended like this.
fn pending_after_end(job_type: JobType, status: ClientStatus, attempts: u32) -> Vec<EvalTrigger> {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let mut wanted = job("wanted", job_type);
    if let Some(policy) = &mut wanted.task_groups[0].reschedule_policy {
        policy.unlimited = Some(false);
        policy.attempts = Some(attempts);
    }
    let eval = cluster.register(&wanted);
    let alloc = cluster.place(&wanted.key(), node);
    let over = cluster.finished(eval);
    cluster.done(Command::EvalsUpsert { evals: vec![over] });
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    assert_eq!(cluster.pending(&wanted.key()), []);
    cluster.report(node, vec![says(alloc, 2, status)]);
    cluster.pending(&wanted.key())
}

#[test]
fn every_end_of_what_is_wanted_still_triggers_an_evaluation() {
    use {ClientStatus::*, JobType::*};
    let failed = vec![EvalTrigger::RetryFailedAlloc];
    let ended = vec![EvalTrigger::AllocStop];
    for (job_type, status, expected) in [
        (Service, Failed, &failed),
        (Service, Complete, &ended),
        (System, Failed, &failed),
        (System, Complete, &ended),
        (Batch, Failed, &failed),
        (Batch, Complete, &vec![]),
        (Sysbatch, Failed, &failed),
        (Sysbatch, Complete, &vec![]),
    ] {
        // Whatever may follow it: that is for the scheduler to say.
        for attempts in [0, 1] {
            let found = pending_after_end(job_type, status, attempts);
            assert_eq!(
                (job_type, status, &found),
                (job_type, status, expected),
                "{attempts} attempts"
            );
        }
    }
}

#[test]
fn the_end_of_what_is_stopped_triggers_no_evaluation() {
    let (mut cluster, node, alloc, key) = running();
    let before = cluster.pending(&key);
    cluster.stop(alloc);
    cluster.report(node, vec![says(alloc, 2, ClientStatus::Complete)]);
    assert_eq!(cluster.pending(&key), before);
}

#[test]
fn the_end_of_an_allocation_frees_its_place() {
    let (mut cluster, node, alloc, _) = running();
    let used = |cluster: &Harness| {
        cluster
            .tables()
            .node_columns()
            .row(node)
            .expect("the row")
            .used
            .cpu
    };
    assert_eq!(used(&cluster), 100);
    let epoch = cluster.epoch(node);
    let applied = cluster.apply(Command::AllocUpdates {
        batches: vec![NodeBatch {
            node,
            epoch,
            class: UpdateClass::Urgent,
            seq: 9,
            reports: vec![says(alloc, 2, ClientStatus::Complete)],
        }],
    });
    assert_eq!(used(&cluster), 0);
    let freed = Signal::CapacityFreed {
        node,
        class: Arc::from("v1:plain"),
        since: UnixNanos::ZERO,
    };
    assert!(applied.signals.contains(&freed));
}

#[test]
fn a_node_that_runs_again_what_is_over_is_told_to_stop_it() {
    let (mut cluster, node, alloc, key) = running();
    cluster.report(node, vec![says(alloc, 2, ClientStatus::Failed)]);
    let result = cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    assert_eq!(result.results, [ItemResult::Superseded]);
    let late = cluster.alloc(alloc);
    assert_eq!(late.desired_status, DesiredStatus::Run, "it was only late");
    cluster.report(node, vec![says(alloc, 3, ClientStatus::Running)]);
    let over = cluster.alloc(alloc);
    assert_eq!(
        (over.client_status, over.desired_status),
        (ClientStatus::Failed, DesiredStatus::Stop)
    );
    assert!(
        cluster
            .pending(&key)
            .contains(&EvalTrigger::RetryFailedAlloc)
    );
}

#[test]
fn the_last_word_is_final() {
    let (mut cluster, node, alloc, _) = running();
    cluster.report(node, vec![says(alloc, 2, ClientStatus::Complete)]);
    let result = cluster.report(node, vec![says(alloc, 3, ClientStatus::Running)]);
    assert_eq!(result.results, [ItemResult::Superseded]);
    assert_eq!(cluster.alloc(alloc).client_status, ClientStatus::Complete);
}

#[test]
fn task_events_are_kept_in_the_last_word_only() {
    let (mut cluster, node, alloc, _) = running();
    let tasks = |state| {
        let mut task = TaskState {
            state,
            ..TaskState::default()
        };
        task.push_event(TaskEvent::new(
            TaskEventKind::Started,
            "started",
            UnixNanos(5),
        ));
        BTreeMap::from([("main".to_owned(), task)])
    };
    let mut live = says(alloc, 2, ClientStatus::Running);
    live.task_states = tasks(TaskRunState::Running);
    cluster.report(node, vec![live]);
    assert!(cluster.alloc(alloc).task_states["main"].events.is_empty());
    let mut last = says(alloc, 3, ClientStatus::Complete);
    last.task_states = tasks(TaskRunState::Dead);
    cluster.report(node, vec![last]);
    assert_eq!(cluster.alloc(alloc).task_states["main"].events.len(), 1);
}

#[test]
fn reports_outside_a_session_are_turned_away() {
    let (mut cluster, node, alloc, _) = running();
    let old = cluster.epoch(node);
    let batch = |epoch, seq| NodeBatch {
        node,
        epoch,
        class: UpdateClass::Urgent,
        seq,
        reports: vec![says(alloc, 9, ClientStatus::Failed)],
    };
    let other = cluster.batch(batch(SessionEpoch(old.0 + 99), 5));
    assert_eq!(other.rejected, Some(BatchRejected::NotInSession));
    let epoch = cluster.welcome(knock(1, 2, SessionEpoch::NONE)).epoch;
    let early = cluster.batch(batch(epoch, 1));
    assert_eq!(early.rejected, Some(BatchRejected::OwesSync));
    cluster.silent(node);
    let silent = cluster.batch(batch(epoch, 1));
    assert_eq!(silent.rejected, Some(BatchRejected::NotInSession));
    assert_eq!(cluster.alloc(alloc).client_status, ClientStatus::Running);
}

#[test]
fn a_node_cannot_speak_of_anothers_allocation() {
    let (mut cluster, _, alloc, _) = running();
    let other = cluster.join(2);
    let result = cluster.report(other, vec![says(alloc, 9, ClientStatus::Failed)]);
    assert_eq!(result.results, [ItemResult::UnknownAlloc]);
    let unknown = AllocId::from_u128(77);
    let result = cluster.report(other, vec![says(unknown, 1, ClientStatus::Running)]);
    assert_eq!(result.results, [ItemResult::UnknownAlloc]);
}

#[test]
fn complete_report_that_names_anothers_allocation_keeps_it_nowhere() {
    let (mut cluster, owner, alloc, _) = running();
    let other = cluster.join(2);
    let epoch = cluster.welcome(knock(2, 2, SessionEpoch::NONE)).epoch;
    let before = cluster.alloc(alloc).clone();
    let outcome = cluster.sync_unchanged(other, epoch, vec![alloc]).outcome;
    let Outcome::Synced { lost, unknown } = outcome else {
        panic!("not synced: {outcome:?}");
    };
    assert_eq!((lost.len(), unknown), (0, vec![alloc]));
    let epoch = cluster.welcome(knock(2, 3, SessionEpoch::NONE)).epoch;
    let lie = vec![says(alloc, 9, ClientStatus::Failed)];
    let outcome = cluster.sync(other, epoch, lie).outcome;
    let Outcome::Synced { lost, unknown } = outcome else {
        panic!("not synced: {outcome:?}");
    };
    assert_eq!((lost.len(), unknown), (0, vec![alloc]));
    assert_eq!(cluster.alloc(alloc), before);
    assert_eq!(before.node_id, owner);
}

#[test]
fn an_empty_batch_wakes_no_reader() {
    let (mut cluster, node, alloc, _) = running();
    let before = cluster.tables().table_index(&[Table::Nodes, Table::Allocs]);
    // The same state again, with a new revision: the mark moves, the row does not.
    cluster.report(node, vec![says(alloc, 2, ClientStatus::Running)]);
    assert_eq!(
        cluster.tables().table_index(&[Table::Nodes, Table::Allocs]),
        before
    );
    assert_eq!(cluster.tables().alloc_report_mark(alloc).revision, 2);
}

#[test]
fn the_remains_of_a_purged_job_ask_for_a_look_when_they_end() {
    let (mut cluster, node, alloc, key) = running();
    cluster.deregister(&key, controlplane_state::command::Purge::Forget);
    let epoch = cluster.epoch(node);
    let applied = cluster.apply(Command::AllocUpdates {
        batches: vec![NodeBatch {
            node,
            epoch,
            class: UpdateClass::Urgent,
            seq: 9,
            reports: vec![says(alloc, 2, ClientStatus::Failed)],
        }],
    });
    assert!(has_signal(&applied, |signal| matches!(
        signal,
        Signal::EvalPending(eval) if eval.triggered_by == EvalTrigger::JobDeregister
    )));
}
