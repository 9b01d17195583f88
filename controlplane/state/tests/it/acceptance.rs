//! What a node says nothing of although it is ready.

use controlplane_state::Command;
use controlplane_state::command::Unaccepted;
use protocol_model::{AllocId, ClientStatus, DesiredTransition, EvalTrigger, Job, JobType, NodeId};

use crate::harness::{Harness, job, knock, says};

/// A job whose evaluation is over, and its allocation.
fn placed(cluster: &mut Harness, job_type: JobType) -> (NodeId, Job, AllocId) {
    let node = cluster.join(1);
    let web = job("web", job_type);
    let eval = cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    let over = cluster.finished(eval);
    cluster.done(Command::EvalsUpsert { evals: vec![over] });
    (node, web, alloc)
}

fn expire(cluster: &mut Harness, node: NodeId, alloc: AllocId) {
    let epoch = cluster.epoch(node);
    let one = Unaccepted {
        node,
        epoch,
        allocs: vec![alloc],
    };
    cluster.apply(Command::PendingExpired { nodes: vec![one] });
}

fn moves(cluster: &Harness, alloc: AllocId) -> bool {
    cluster.alloc(alloc).desired_transition.moves_elsewhere()
}

#[test]
fn hole_9_what_a_node_does_not_accept_is_to_be_moved_in_one_entry_with_its_evaluation() {
    let mut cluster = Harness::new();
    let (node, web, alloc) = placed(&mut cluster, JobType::Service);
    expire(&mut cluster, node, alloc);
    assert!(moves(&cluster, alloc));
    assert_eq!(cluster.pending(&web.key()), [EvalTrigger::AllocStop]);
}

#[test]
fn an_expiry_that_was_decided_for_another_session_or_too_late_changes_nothing() {
    let mut cluster = Harness::new();
    let (node, web, alloc) = placed(&mut cluster, JobType::Service);
    let epoch = cluster.epoch(node);
    cluster.silent(node);
    let again = cluster.welcome(knock(1, 2, epoch)).epoch;
    cluster.sync(node, again, Vec::new());
    let alloc = if cluster.alloc(alloc).terminal() {
        cluster.place(&web.key(), node)
    } else {
        alloc
    };
    let late = Unaccepted {
        node,
        epoch,
        allocs: vec![alloc],
    };
    cluster.apply(Command::PendingExpired { nodes: vec![late] });
    assert!(!moves(&cluster, alloc), "another session");
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Pending)]);
    expire(&mut cluster, node, alloc);
    assert!(!moves(&cluster, alloc), "it was accepted meanwhile");
}

#[test]
fn what_runs_on_every_node_is_moved_nowhere() {
    let mut cluster = Harness::new();
    let (node, _, alloc) = placed(&mut cluster, JobType::System);
    expire(&mut cluster, node, alloc);
    assert!(!moves(&cluster, alloc));
}

#[test]
fn a_word_that_comes_late_keeps_it_where_it_is() {
    let mut cluster = Harness::new();
    let (node, _, alloc) = placed(&mut cluster, JobType::Service);
    expire(&mut cluster, node, alloc);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    assert!(!moves(&cluster, alloc));
}

#[test]
fn a_complete_report_that_brings_no_news_of_it_says_that_it_was_accepted() {
    let mut cluster = Harness::new();
    let (node, _, alloc) = placed(&mut cluster, JobType::Service);
    let last = cluster.epoch(node);
    let mut hello = knock(1, 2, last);
    hello.daemon = controlplane_state::command::DaemonLife::Restarted;
    let epoch = cluster.welcome(hello).epoch;
    cluster.sync_unchanged(node, epoch, vec![alloc]);
    expire(&mut cluster, node, alloc);
    assert!(!moves(&cluster, alloc));
}

#[test]
fn what_an_operator_stops_is_stopped_although_its_node_accepts_it_after_all() {
    let mut cluster = Harness::new();
    let (node, _, alloc) = placed(&mut cluster, JobType::Service);
    expire(&mut cluster, node, alloc);
    let wish = DesiredTransition {
        migrate: Some(true),
        ..DesiredTransition::default()
    };
    cluster.done(Command::AllocsStop {
        allocs: vec![(alloc, wish)],
        evals: Vec::new(),
    });
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    let transition = cluster.alloc(alloc).desired_transition;
    assert!(transition.should_migrate());
}
