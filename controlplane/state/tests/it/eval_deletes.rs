//! Deleting evaluations: which go, which stay, and that nothing brings them back.

use std::collections::BTreeSet;
use std::sync::Arc;

use controlplane_state::command::{EvalsDelete, EvalsPage, PlanApply, Purge};
use controlplane_state::{Command, EvalSlot, EvalsDeleted, Outcome, Refusal, Signal, Tables};
use proptest::prelude::*;
use protocol_model::filter::Filter;
use protocol_model::{
    ClientStatus, EvalId, EvalStatus, EvalTrigger, Evaluation, Incarnation, JobKey, JobStatus,
    JobType, NodeId,
};

use crate::harness::{Harness, has_signal, job, says};

fn page(filter: &str, up_to: u64) -> EvalsPage {
    EvalsPage {
        filter: filter.to_owned(),
        namespace: None,
        after: None,
        up_to,
        rows: 100,
    }
}

fn delete(cluster: &mut Harness, what: EvalsDelete) -> EvalsDeleted {
    match cluster.apply(Command::EvalsDelete(what)).outcome {
        Outcome::EvalsDeleted(deleted) => deleted,
        other => panic!("{other:?}"),
    }
}

/// Deletes page after page, as a server does.
fn delete_all(cluster: &mut Harness, mut page: EvalsPage) -> (EvalsDeleted, u32) {
    let (mut sum, mut pages) = (EvalsDeleted::default(), 0);
    loop {
        let done = delete(cluster, EvalsDelete::Page(page.clone()));
        sum.deleted += done.deleted;
        sum.open += done.open;
        sum.kept += done.kept;
        pages += 1;
        if done.next.is_none() {
            return (sum, pages);
        }
        page.after = done.next;
    }
}

fn eval(cluster: &mut Harness, job_id: &str, status: EvalStatus) -> EvalId {
    let mut eval = cluster.eval_of(&job(job_id, JobType::Service));
    (eval.status, eval.triggered_by) = (EvalStatus::Pending, EvalTrigger::NodeUpdate);
    let id = eval.id;
    let one = |eval: Evaluation| Command::EvalsUpsert { evals: vec![eval] };
    cluster.done(one(eval.clone()));
    if status != EvalStatus::Pending {
        eval.status = status;
        cluster.done(one(eval));
    }
    id
}

fn ids(cluster: &Harness) -> Vec<EvalId> {
    cluster.tables().evals().map(|eval| eval.id).collect()
}

#[test]
fn an_open_evaluation_goes_and_its_scheduler_learns_it() {
    let mut cluster = Harness::new();
    let web = job("web", JobType::Service);
    let pending = cluster.register(&web);
    let complete = eval(&mut cluster, "web", EvalStatus::Complete);
    let up_to = cluster.index;
    let what = EvalsDelete::Page(page("Status == pending", up_to));
    let applied = cluster.done(Command::EvalsDelete(what));
    let expected = EvalsDeleted {
        deleted: 1,
        open: 1,
        kept: 0,
        next: None,
    };
    assert_eq!(applied.outcome, Outcome::EvalsDeleted(expected));
    let removed = |signal: &Signal| *signal == Signal::EvalRemoved(pending);
    assert!(has_signal(&applied, removed));
    assert_eq!(ids(&cluster), [complete]);
    // Nothing is left to do for it, until the next evaluation comes.
    let status = cluster.tables().job(&web.key()).map(|job| job.status);
    assert_eq!(status, Some(JobStatus::Dead));
}

#[test]
fn an_evaluation_that_is_over_goes_without_a_signal() {
    let mut cluster = Harness::new();
    let id = eval(&mut cluster, "gone", EvalStatus::Failed);
    let applied = cluster.done(Command::EvalsDelete(EvalsDelete::Ids(vec![id, id])));
    assert_eq!(applied.signals, []);
    assert_eq!(ids(&cluster), []);
    assert_eq!(
        cluster.tables().job_tally(&JobKey::new("default", "gone")),
        None
    );
}

#[test]
fn a_plan_of_a_deleted_evaluation_is_refused() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    let id = cluster.register(&web);
    let plan = PlanApply {
        eval_id: Some(id),
        placed: vec![Arc::new(cluster.alloc_for(&web.key(), node, 10))],
        evals: vec![cluster.finished(id)],
        ..PlanApply::default()
    };
    delete(&mut cluster, EvalsDelete::Ids(vec![id]));
    let outcome = cluster.plan(plan).outcome;
    assert_eq!(outcome, Outcome::Refused(Refusal::UnknownEval(id)));
    assert_eq!(ids(&cluster), []);
}

#[test]
fn a_deleted_evaluation_that_is_written_off_does_not_return() {
    let mut cluster = Harness::new();
    let web = job("web", JobType::Service);
    let id = cluster.register(&web);
    let mut failed = cluster.finished(id);
    failed.status = EvalStatus::Failed;
    let mut again = cluster.eval_of(&web);
    again.previous_eval = Some(id);
    delete(&mut cluster, EvalsDelete::Ids(vec![id]));
    let evals = vec![failed, again];
    let applied = cluster.done(Command::EvalsUpsert { evals });
    assert_eq!(applied.outcome, Outcome::Evaluated(Vec::new()));
    assert_eq!(ids(&cluster), []);
}

#[test]
fn ids_are_deleted_all_or_none() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let (free, held) = with_a_running_allocation(&mut cluster, node);
    let unknown = EvalId::from_u128(0xdead);
    for (second, refusal) in [
        (unknown, Refusal::UnknownEval(unknown)),
        (held, Refusal::EvalInUse(held)),
    ] {
        let what = EvalsDelete::Ids(vec![free, second]);
        let applied = cluster.apply(Command::EvalsDelete(what));
        assert_eq!(applied.outcome, Outcome::Refused(refusal));
    }
    assert_eq!(
        Refusal::EvalInUse(held).to_string(),
        format!("eval {held} is not safe to delete")
    );
}

/// An evaluation without allocations, and one of the same job whose allocation runs.
fn with_a_running_allocation(cluster: &mut Harness, node: NodeId) -> (EvalId, EvalId) {
    let web = job("web", JobType::Service);
    let held = cluster.register(&web);
    let alloc = protocol_model::Allocation {
        eval_id: held,
        ..cluster.alloc_for(&web.key(), node, 10)
    };
    let id = alloc.id;
    let plan = PlanApply {
        eval_id: Some(held),
        placed: vec![Arc::new(alloc)],
        evals: vec![cluster.finished(held)],
        ..PlanApply::default()
    };
    assert_eq!(cluster.plan(plan).outcome, Outcome::PlanApplied);
    cluster.report(node, vec![says(id, 1, ClientStatus::Running)]);
    let free = eval(cluster, "web", EvalStatus::Complete);
    (free, held)
}

#[test]
fn an_evaluation_stays_while_its_allocation_runs_or_is_tried_again() {
    for (status, goes) in [
        (ClientStatus::Running, false),
        (ClientStatus::Failed, false),
        (ClientStatus::Complete, true),
    ] {
        let mut cluster = Harness::new();
        let node = cluster.join(1);
        let (_, held) = with_a_running_allocation(&mut cluster, node);
        let alloc = cluster.tables().allocs().next().map(|alloc| alloc.id);
        let alloc = alloc.expect("one");
        cluster.report(node, vec![says(alloc, 2, status)]);
        let up_to = cluster.index;
        let (sum, _) = delete_all(&mut cluster, page("JobID == web", up_to));
        assert_eq!(sum.kept, u64::from(!goes));
        assert_eq!(ids(&cluster).contains(&held), !goes, "{status:?}");
        // Of a stopped job any goes.
        cluster.deregister(&JobKey::new("default", "web"), Purge::Keep);
        let up_to = cluster.index;
        delete(&mut cluster, EvalsDelete::Page(page("JobID == web", up_to)));
        assert_eq!(ids(&cluster), []);
    }
}

#[test]
fn evaluations_made_or_changed_after_the_call_stay() {
    let mut cluster = Harness::new();
    let old = eval(&mut cluster, "a", EvalStatus::Complete);
    let changed = eval(&mut cluster, "b", EvalStatus::Pending);
    let up_to = cluster.index;
    let mut touched = cluster.finished(changed);
    touched.status = EvalStatus::Blocked;
    let evals = vec![touched];
    cluster.done(Command::EvalsUpsert { evals });
    let new = eval(&mut cluster, "c", EvalStatus::Complete);
    let (sum, _) = delete_all(&mut cluster, page("Status != x", up_to));
    assert_eq!((sum.deleted, sum.kept), (1, 1));
    assert_eq!(ids(&cluster), [changed, new]);
    assert!(cluster.tables().eval(old).is_none());
}

#[test]
fn a_page_of_one_namespace_leaves_the_others_alone() {
    let mut cluster = Harness::new();
    eval(&mut cluster, "a", EvalStatus::Complete);
    let up_to = cluster.index;
    for (namespace, deleted) in [("other", 0), ("default", 1)] {
        let page = EvalsPage {
            namespace: Some(namespace.to_owned()),
            ..page("Status == complete", up_to)
        };
        let (sum, _) = delete_all(&mut cluster, page);
        assert_eq!((sum.deleted, sum.kept), (deleted, 0), "{namespace}");
    }
}

#[test]
fn a_filter_that_makes_no_sense_is_refused() {
    let mut cluster = Harness::new();
    let what = EvalsDelete::Page(page("Nope == 1", 1));
    let outcome = cluster.apply(Command::EvalsDelete(what)).outcome;
    let Outcome::Refused(refusal @ Refusal::Malformed(_)) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        refusal.to_string().contains("\"Nope\" is not valid"),
        "{refusal}"
    );
}

#[test]
fn a_deletion_ends_with_the_history_that_it_was_asked_for() {
    let mut cluster = Harness::new();
    eval(&mut cluster, "a", EvalStatus::Complete);
    let up_to = cluster.tables().index();
    let saved = cluster.checkpoint();
    cluster.restore(&saved, Incarnation::from_u128(0xc9), 1 << 20);
    let what = EvalsDelete::Page(page("Status == complete", up_to));
    let outcome = cluster.apply(Command::EvalsDelete(what)).outcome;
    assert_eq!(outcome, Outcome::Refused(Refusal::AnotherIncarnation));
    assert_eq!(ids(&cluster).len(), 1);
}

const FILTERS: [&str; 6] = [
    "Status == pending",
    "Status != complete and JobID contains \"b\"",
    "TriggeredBy == node-update or Priority == 51",
    "not (Status in [\"x\"]) and CreateIndex != 9",
    "ID matches \"[02468ace]$\"",
    "Type == service",
];

/// The naive deletion: every evaluation of a copy of the table, by the expression on its JSON.
fn naive(tables: &Tables, filter: &str, up_to: u64) -> BTreeSet<EvalSlot> {
    let filter = Filter::parse(filter).expect("an expression");
    let goes = |eval: &&Arc<Evaluation>| {
        let matches = filter.keeps(eval).expect("a verdict");
        let held = tables.allocs().any(|alloc| {
            let again = alloc.client_status == ClientStatus::Failed
                && alloc.next_allocation.is_none()
                && !alloc.server_terminal();
            let lives = matches!(
                alloc.client_status,
                ClientStatus::Running | ClientStatus::Unknown
            );
            alloc.eval_id == eval.id && (lives || again)
        });
        let job = tables.job(&eval.job_key());
        let over = job.is_none_or(|job| job.stop || job.status == JobStatus::Dead);
        matches && eval.modify_index <= up_to && (over || !held)
    };
    let going = tables.evals().filter(goes);
    going.map(|eval| (eval.create_index, eval.id)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn pages_delete_what_a_naive_deletion_does(
        made in proptest::collection::vec((0u8..3, 0u8..5, 0u8..4), 1..40),
        filter in 0..FILTERS.len(),
        rows in 1u32..12,
        late in 0usize..8,
    ) {
        let mut cluster = Harness::new();
        let node = cluster.join(1);
        for name in ["a", "b"] {
            cluster.register(&job(name, JobType::Service));
        }
        for (which, status, alloc) in made {
            let name = ["a", "b", "gone"][usize::from(which)];
            let status = [
                EvalStatus::Pending, EvalStatus::Blocked, EvalStatus::Complete,
                EvalStatus::Failed, EvalStatus::Cancelled,
            ][usize::from(status)];
            let id = eval(&mut cluster, name, status);
            if alloc > 0 && name != "gone" {
                let key = JobKey::new("default", name);
                let mut placed = cluster.alloc_for(&key, node, 1);
                placed.eval_id = id;
                let alloc_id = placed.id;
                cluster.plan(PlanApply { placed: vec![Arc::new(placed)], ..PlanApply::default() });
                let says_now = [
                    ClientStatus::Running,
                    ClientStatus::Failed,
                    ClientStatus::Complete,
                ];
                let status = says_now[usize::from(alloc) - 1];
                cluster.report(node, vec![says(alloc_id, 1, status)]);
            }
        }
        let up_to = cluster.index.saturating_sub(late as u64);
        let filter = FILTERS[filter].replace("Status in [\"x\"]", "\"x\" in StatusDescription");
        let before = cluster.tables().clone();
        // Only what changed since the call was made may tell the jobs' status apart.
        let going = naive(&before, &filter, up_to);
        let (sum, pages) = delete_all(&mut cluster, EvalsPage { rows, ..page(&filter, up_to) });
        let slots = |tables: &Tables| -> BTreeSet<EvalSlot> {
            tables.evals().map(|eval| (eval.create_index, eval.id)).collect()
        };
        let left = slots(cluster.tables());
        let gone: BTreeSet<_> = slots(&before).difference(&left).copied().collect();
        // A job may die with its last open evaluation, and then more of it may go.
        let died = |key: &JobKey| {
            let status = |tables: &Tables| tables.job(key).map(|job| job.status);
            status(&before) != status(cluster.tables())
        };
        let dead = ["a", "b"].map(|name| JobKey::new("default", name)).iter().any(died);
        prop_assert!(going.is_subset(&gone));
        prop_assert!(dead || going == gone, "{:?}", gone.difference(&going));
        prop_assert_eq!(sum.deleted, gone.len() as u64);
        let count = u32::try_from(before.evals().count()).unwrap_or(0);
        prop_assert!(pages <= count.div_ceil(rows) + 1);
        let open = before.evals().filter(|eval| !eval.status.is_terminal());
        let open = open.filter(|eval| cluster.tables().eval(eval.id).is_none()).count();
        prop_assert_eq!(sum.open, open as u64);
    }
}
