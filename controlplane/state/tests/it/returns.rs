//! Nodes that come back: what their return moves, and what it does not.

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::{
    AllocChange, Change, DaemonLife, NodeDrainSet, NodeSynced, PlanApply,
};
use controlplane_state::news::CompleteReport;
use controlplane_state::{Command, Outcome, Refusal, SessionEpoch, Signal, WindowEnd};
use protocol_model::{
    ClientStatus, DesiredStatus, DrainSpec, Eligibility, EvalId, EvalTrigger, Job, JobKey, JobType,
    Node, NodeId, NodeStatus, UnixNanos,
};

use crate::harness::{Harness, has_signal, job, knock, says, tolerant_job};

/// A daemon that was restarted knocks.
fn restart(cluster: &mut Harness, node: NodeId) -> SessionEpoch {
    let mut hello = knock(1, 2, cluster.epoch(node));
    hello.daemon = DaemonLife::Restarted;
    cluster.welcome(hello).epoch
}

/// A job of every node whose evaluation is over.
fn decided(cluster: &mut Harness, name: &str) -> Job {
    let job = job(name, JobType::System);
    let eval = cluster.register(&job);
    let over = cluster.finished(eval);
    cluster.done(Command::EvalsUpsert { evals: vec![over] });
    job
}

#[test]
fn a_short_restart_creates_no_evaluation_and_moves_nothing() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    // It found this node not feasible: it has nothing here.
    decided(&mut cluster, "agent");
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    cluster.pass(Duration::from_secs(5));
    let evals = cluster.tables().evals().count();
    let epoch = restart(&mut cluster, node);
    let applied = cluster.sync(node, epoch, vec![says(alloc, 1, ClientStatus::Running)]);
    assert_eq!(
        applied.outcome,
        Outcome::Synced {
            lost: vec![],
            unknown: vec![]
        }
    );
    assert_eq!(cluster.tables().evals().count(), evals);
    assert_eq!(cluster.status(node), NodeStatus::Ready);
}

#[test]
fn a_failure_right_after_a_return_is_looked_at_although_its_window_is_open() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = tolerant_job("web", Duration::from_secs(3600));
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    cluster.silent(node);
    let disconnect = Change::Disconnect {
        description: String::new(),
        followup_eval: Some(EvalId::from_u128(0xf0)),
    };
    cluster.change(alloc, disconnect);
    let epoch = restart(&mut cluster, node);
    cluster.sync(node, epoch, vec![says(alloc, 1, ClientStatus::Running)]);
    assert!(cluster.alloc(alloc).followup_eval_id.is_some());
    // A plan may be on its way that takes it back on the strength of what it saw before.
    cluster.report(node, vec![says(alloc, 2, ClientStatus::Failed)]);
    let pending = cluster.pending(&web.key());
    assert!(
        pending.contains(&EvalTrigger::RetryFailedAlloc),
        "{pending:?}"
    );
}

#[test]
fn the_jobs_of_what_ended_on_a_node_are_not_looked_at_when_it_falls_silent() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let done = job("done", JobType::Batch);
    let eval = cluster.register(&done);
    let alloc = cluster.place(&done.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Complete)]);
    let over = cluster.finished(eval);
    cluster.done(Command::EvalsUpsert { evals: vec![over] });
    cluster.silent(node);
    assert_eq!(cluster.pending(&done.key()), []);
}

#[test]
fn of_two_reports_of_one_session_the_newer_word_counts() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    let epoch = restart(&mut cluster, node);
    // Its entry was long on its way; meanwhile the task failed, and the node said so again.
    cluster.sync(node, epoch, vec![says(alloc, 1, ClientStatus::Running)]);
    cluster.sync(node, epoch, vec![says(alloc, 2, ClientStatus::Failed)]);
    assert_eq!(cluster.alloc(alloc).client_status, ClientStatus::Failed);
    cluster.sync(node, epoch, vec![says(alloc, 1, ClientStatus::Running)]);
    let over = cluster.alloc(alloc);
    assert_eq!(
        (over.client_status, over.desired_status),
        (ClientStatus::Failed, DesiredStatus::Run)
    );
}

#[test]
fn what_was_the_same_before_an_earlier_report_was_taken_in_is_news_after_it() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    let epoch = restart(&mut cluster, node);
    // The node says it twice: that it could not restore the task, and then that it did.
    let mut first = says(alloc, 2, ClientStatus::Running);
    first.client_description = "not found yet".to_owned();
    let second = CompleteReport {
        node,
        epoch,
        ours: true,
        watch_index: cluster.index,
        reports: vec![says(alloc, 3, ClientStatus::Running)],
        facts: None,
    };
    let early = second.command(cluster.tables());
    assert_eq!((early.changed.len(), early.unchanged.len()), (0, 1));
    cluster.sync(node, epoch, vec![first]);
    cluster.apply(Command::NodeSynced(Box::new(early)));
    assert!(second.is_news(cluster.tables()));
    let late = second.command(cluster.tables());
    cluster.apply(Command::NodeSynced(Box::new(late)));
    assert_eq!(cluster.alloc(alloc).client_description, "");
    assert!(!second.is_news(cluster.tables()));
}

#[test]
fn facts_that_the_state_has_already_do_not_enter_the_log_with_a_report() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let epoch = restart(&mut cluster, node);
    let known = Node::clone(&cluster.tables().node(node).expect("known").node);
    let command = |facts: Node| {
        let report = CompleteReport {
            node,
            epoch,
            ours: true,
            watch_index: cluster.index,
            reports: Vec::new(),
            facts: Some(Arc::new(facts)),
        };
        report.command(cluster.tables())
    };
    // What the control plane knows of it is nothing that a node says.
    let same = Node {
        status: NodeStatus::Down,
        modify_index: 0,
        ..known.clone()
    };
    assert_eq!(command(same).facts, None);
    let other = Node {
        node_class: "large".to_owned(),
        ..known
    };
    assert!(command(other).facts.is_some());
}

#[test]
fn a_job_of_every_node_that_was_decided_during_a_short_restart_is_looked_at_again() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let before = decided(&mut cluster, "before");
    let alloc = cluster.place(&before.key(), node);
    cluster.pass(Duration::from_secs(5));
    let epoch = restart(&mut cluster, node);
    let meanwhile = decided(&mut cluster, "meanwhile");
    let synced = cluster.sync(node, epoch, vec![says(alloc, 1, ClientStatus::Running)]);
    assert_eq!(
        cluster.pending(&meanwhile.key()),
        [EvalTrigger::NodeUpdate],
        "its scheduler found no node that was ready"
    );
    assert!(cluster.pending(&before.key()).is_empty());
    let back = |signal: &Signal| match signal {
        Signal::CapacityFreed { since, .. } => *since > UnixNanos::ZERO,
        _ => false,
    };
    assert!(
        has_signal(&synced, back),
        "who waits for room since then is told"
    );
}

#[test]
fn a_drain_that_ends_while_its_node_is_away_is_made_up_for() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let switch = |drain| {
        Command::NodeDrainSet(NodeDrainSet {
            node,
            drain,
            eligibility_after: Eligibility::Eligible,
            accessor_id: String::new(),
            meta: None,
        })
    };
    cluster.apply(switch(Some(DrainSpec::default())));
    let agent = decided(&mut cluster, "agent");
    cluster.pass(Duration::from_secs(5));
    let epoch = restart(&mut cluster, node);
    cluster.apply(switch(None));
    assert!(cluster.pending(&agent.key()).is_empty());
    cluster.sync(node, epoch, Vec::new());
    assert_eq!(cluster.pending(&agent.key()), [EvalTrigger::NodeUpdate]);
}

#[test]
fn a_node_that_is_back_has_lost_nothing_by_an_old_plan() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    let lost = || Change::Stop {
        description: String::new(),
        client_status: Some(ClientStatus::Lost),
        followup_eval: None,
    };
    cluster.silent(node);
    let last = cluster.epoch(node);
    cluster.welcome(knock(1, 2, last));
    let applied = cluster.plan(PlanApply {
        changed: vec![AllocChange {
            id: alloc,
            change: lost(),
        }],
        ..PlanApply::default()
    });
    assert_eq!(
        applied.outcome,
        Outcome::Refused(Refusal::AllocState(alloc))
    );
    cluster.silent(node);
    cluster.change(alloc, lost());
    assert_eq!(cluster.alloc(alloc).client_status, ClientStatus::Lost);
}

#[test]
fn a_node_with_an_open_window_is_disconnected_and_then_down() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = tolerant_job("web", Duration::from_secs(60));
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    cluster.silent(node);
    assert_eq!(cluster.status(node), NodeStatus::Disconnected);
    let change = Change::Disconnect {
        description: String::new(),
        followup_eval: None,
    };
    cluster.change(alloc, change);
    assert_eq!(cluster.alloc(alloc).client_status, ClientStatus::Unknown);
    assert!(cluster.tables().has_open_window(node, cluster.now));
    let nodes = vec![(node, cluster.epoch(node))];
    let over = Command::WindowExpired { nodes };
    cluster.done(over.clone());
    assert_eq!(cluster.status(node), NodeStatus::Disconnected, "too early");
    cluster.pass(Duration::from_secs(61));
    assert!(!cluster.tables().has_open_window(node, cluster.now));
    cluster.done(over);
    assert_eq!(cluster.status(node), NodeStatus::Down);
}

#[test]
fn the_longest_window_on_a_node_decides_how_long_it_is_disconnected() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    for (name, seconds) in [("long", 60), ("short", 20)] {
        let job = tolerant_job(name, Duration::from_secs(seconds));
        cluster.register(&job);
        let alloc = cluster.place(&job.key(), node);
        cluster.report(node, vec![says(alloc, seconds, ClientStatus::Running)]);
    }
    cluster.silent(node);
    let begins = |cluster: &mut Harness, name| {
        let key = JobKey::new("default", name);
        let alloc = cluster.tables().allocs_by_job(&key).map(|it| it.id).next();
        let change = Change::Disconnect {
            description: String::new(),
            followup_eval: None,
        };
        cluster.change(alloc.expect("one"), change);
        cluster.tables().disconnect_windows_end(node)
    };
    assert_eq!(begins(&mut cluster, "short"), Some(WindowEnd::NotBegun));
    let Some(WindowEnd::At(end)) = begins(&mut cluster, "long") else {
        panic!("both have begun")
    };
    assert!(end >= cluster.now.saturating_add(Duration::from_secs(59)));
}

#[test]
fn a_returning_allocation_asks_the_scheduler_what_its_return_means() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = tolerant_job("web", Duration::from_secs(60));
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.silent(node);
    let change = Change::Disconnect {
        description: String::new(),
        followup_eval: None,
    };
    cluster.change(alloc, change);
    let last = cluster.epoch(node);
    let epoch = cluster.welcome(knock(1, 2, last)).epoch;
    cluster.sync(node, epoch, vec![says(alloc, 1, ClientStatus::Running)]);
    assert!(
        cluster
            .pending(&web.key())
            .contains(&EvalTrigger::Reconnect)
    );
    assert!(cluster.alloc(alloc).needs_reconnect());
    cluster.change(alloc, Change::Reconnect);
    assert!(!cluster.alloc(alloc).needs_reconnect());
}

#[test]
fn a_node_that_is_back_cannot_be_called_silent_by_an_old_plan() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = tolerant_job("web", Duration::from_secs(60));
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.silent(node);
    let last = cluster.epoch(node);
    cluster.welcome(knock(1, 2, last));
    let change = Change::Disconnect {
        description: String::new(),
        followup_eval: None,
    };
    let outcome = cluster.change(alloc, change).outcome;
    assert_eq!(outcome, Outcome::Refused(Refusal::AllocState(alloc)));
}

#[test]
fn what_a_node_had_been_told_of_and_no_longer_has_is_lost() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let told = cluster.place(&web.key(), node);
    let watch_index = cluster.index;
    let untold = cluster.place(&web.key(), node);
    let last = cluster.epoch(node);
    let epoch = cluster.welcome(knock(1, 2, SessionEpoch(last.0 - 1))).epoch;
    let synced = NodeSynced {
        node,
        epoch,
        watch_index,
        changed: Vec::new(),
        unchanged: Vec::new(),
        facts: None,
    };
    let applied = cluster.done(Command::NodeSynced(Box::new(synced)));
    assert_eq!(
        applied.outcome,
        Outcome::Synced {
            lost: vec![told],
            unknown: vec![]
        }
    );
    let lost = cluster.alloc(told);
    assert_eq!(
        (lost.client_status, lost.desired_status),
        (ClientStatus::Lost, DesiredStatus::Stop)
    );
    assert_eq!(cluster.alloc(untold).client_status, ClientStatus::Pending);
    assert!(
        cluster
            .pending(&web.key())
            .contains(&EvalTrigger::NodeUpdate)
    );
}
