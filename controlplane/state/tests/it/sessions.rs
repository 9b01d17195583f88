//! Sessions: the table, and every hole of the original steps as a test of its own.

use controlplane_state::command::{JoinVerdict, NodeSynced};
use controlplane_state::session::{EpochMatch, Knock, NodeEvent, NodePhase, Tolerance, transition};
use controlplane_state::{
    Command, Digest, HelloAnswer, MissedResult, Outcome, Refusal, SessionEpoch, Signal, WelcomeKind,
};
use protocol_model::{ClientStatus, EvalTrigger, JobType, NodeStatus};

use crate::harness::{Harness, facts, job, knock, node_id, registration, says};

const PHASES: [NodePhase; 5] = [
    NodePhase::Unregistered,
    NodePhase::Initializing,
    NodePhase::Ready,
    NodePhase::Disconnected,
    NodePhase::Down,
];

const EVENTS: [NodeEvent; 16] = [
    NodeEvent::Register(Knock::Fresh),
    NodeEvent::Register(Knock::Repeated),
    NodeEvent::Register(Knock::Resumable),
    NodeEvent::Hello(Knock::Fresh),
    NodeEvent::Hello(Knock::Repeated),
    NodeEvent::Hello(Knock::Resumable),
    NodeEvent::StatusBatch,
    NodeEvent::Facts,
    NodeEvent::NodeSynced,
    NodeEvent::SyncRejected,
    NodeEvent::SyncDeadline,
    NodeEvent::HeartbeatMissed(Tolerance::Window),
    NodeEvent::HeartbeatMissed(Tolerance::None),
    NodeEvent::WindowExpired,
    NodeEvent::PendingExpired,
    NodeEvent::Purge,
];

#[test]
fn every_cell_of_the_session_table() {
    let mut table = String::new();
    for epoch in [EpochMatch::Same, EpochMatch::Other] {
        table.push_str(&format!("epoch {epoch:?}\n"));
        for event in EVENTS {
            table.push_str(&format!("  {event:?}\n"));
            for phase in PHASES {
                let verdict = transition(phase, event, epoch);
                table.push_str(&format!("    {:<13} {verdict:?}\n", format!("{phase:?}")));
            }
        }
    }
    insta::assert_snapshot!("session_table", table);
}

#[test]
fn no_way_leads_to_ready_but_a_complete_report() {
    let ready = controlplane_state::session::Verdict::Become(NodeStatus::Ready);
    for phase in PHASES {
        for event in EVENTS {
            for epoch in [EpochMatch::Same, EpochMatch::Other] {
                if transition(phase, event, epoch) == ready {
                    assert_eq!(
                        (phase, event),
                        (NodePhase::Initializing, NodeEvent::NodeSynced)
                    );
                    assert_eq!(epoch, EpochMatch::Same);
                }
            }
        }
    }
}

#[test]
fn hole_1_a_node_that_was_down_is_ready_only_after_its_report() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    cluster.silent(node);
    assert_eq!(cluster.status(node), NodeStatus::Down);
    let last = cluster.epoch(node);
    let epoch = cluster.welcome(knock(1, 2, last)).epoch;
    assert_eq!(cluster.status(node), NodeStatus::Initializing);
    cluster.sync(node, epoch, Vec::new());
    assert_eq!(cluster.status(node), NodeStatus::Ready);
}

#[test]
fn hole_2_an_empty_report_opens_the_gate() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    let last = cluster.epoch(node);
    cluster.silent(node);
    let epoch = cluster.welcome(knock(1, 2, last)).epoch;
    // Nothing changed on the node: the report says so, and that is enough.
    cluster.sync_unchanged(node, epoch, vec![alloc]);
    assert_eq!(cluster.status(node), NodeStatus::Ready);
    assert_eq!(cluster.alloc(alloc).client_status, ClientStatus::Running);
}

#[test]
fn hole_3_silence_and_its_evaluations_are_one_entry() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    let agent = job("agent", JobType::System);
    let once = job("once", JobType::Sysbatch);
    for job in [&web, &agent, &once] {
        cluster.register(job);
        cluster.place(&job.key(), node);
    }
    let applied = cluster.silent(node);
    let status = Some(NodeStatus::Down);
    assert_eq!(
        applied.outcome,
        Outcome::Missed(vec![MissedResult { node, status }])
    );
    for job in [&web, &agent] {
        assert!(
            cluster
                .pending(&job.key())
                .contains(&EvalTrigger::NodeUpdate),
            "{}",
            job.id
        );
    }
    let pending = applied
        .signals
        .iter()
        .filter(|one| matches!(one, Signal::EvalPending(_)));
    // One per job: the sysbatch job is looked at as one that runs on every node, not for its
    // allocation there.
    assert_eq!(pending.count(), 3);
}

#[test]
fn hole_8_many_silent_nodes_are_one_entry_and_one_evaluation_per_job() {
    let mut cluster = Harness::new();
    let nodes = [cluster.join(1), cluster.join(2), cluster.join(3)];
    let web = job("web", JobType::Service);
    cluster.register(&web);
    for node in nodes {
        cluster.place(&web.key(), node);
    }
    let missed = nodes.map(|node| (node, cluster.epoch(node))).to_vec();
    cluster.done(Command::HeartbeatMissed { nodes: missed });
    assert!(
        nodes
            .iter()
            .all(|node| cluster.status(*node) == NodeStatus::Down)
    );
    let triggers = cluster.pending(&web.key());
    assert_eq!(
        triggers,
        [EvalTrigger::JobRegister, EvalTrigger::NodeUpdate]
    );
}

#[test]
fn a_new_node_owes_its_report_too() {
    let mut cluster = Harness::new();
    let agent = job("agent", JobType::System);
    cluster.register(&agent);
    let welcome = cluster.welcome(registration(1));
    assert_eq!(
        (welcome.kind, welcome.epoch.0),
        (WelcomeKind::New, cluster.index)
    );
    assert_eq!(cluster.status(node_id(1)), NodeStatus::Initializing);
    let batch = cluster.report(node_id(1), vec![]);
    assert_eq!(
        batch.rejected,
        Some(controlplane_state::BatchRejected::OwesSync)
    );
    cluster.sync(node_id(1), welcome.epoch, Vec::new());
    let triggers = cluster.pending(&agent.key());
    assert_eq!(
        triggers,
        [EvalTrigger::JobRegister, EvalTrigger::NodeUpdate]
    );
}

#[test]
fn a_repeated_hello_gets_the_session_that_it_made() {
    let mut cluster = Harness::new();
    let first = cluster.welcome(registration(1));
    let again = cluster.welcome(registration(1));
    assert_eq!(
        (again.epoch, again.kind),
        (first.epoch, WelcomeKind::Repeated)
    );
    let answer = cluster.tables().answer_hello(&registration(1));
    assert_eq!(answer, HelloAnswer::Welcome(again));
}

#[test]
fn a_node_that_never_left_resumes_without_a_commit() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    let epoch = cluster.epoch(node);
    match cluster.tables().answer_hello(&knock(1, 9, epoch)) {
        HelloAnswer::Welcome(welcome) => {
            assert_eq!((welcome.epoch, welcome.kind), (epoch, WelcomeKind::Resumed));
            assert_eq!(
                (welcome.applied_urgent_seq, welcome.applied_typical_seq),
                (1, 0)
            );
        }
        other => panic!("{other:?}"),
    }
    let mut restarted = knock(1, 9, epoch);
    restarted.daemon = controlplane_state::command::DaemonLife::Restarted;
    assert_eq!(
        cluster.tables().answer_hello(&restarted),
        HelloAnswer::Propose
    );
    let mut rebooted = knock(1, 9, epoch);
    rebooted.boot_id = [4; 16];
    assert_eq!(
        cluster.tables().answer_hello(&rebooted),
        HelloAnswer::Propose
    );
}

#[test]
fn decisions_for_another_session_are_void() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let old = cluster.epoch(node);
    let epoch = cluster.welcome(knock(1, 2, SessionEpoch::NONE)).epoch;
    cluster.sync(node, epoch, Vec::new());
    let missed = cluster.apply(Command::HeartbeatMissed {
        nodes: vec![(node, old)],
    });
    let nothing = MissedResult { node, status: None };
    assert_eq!(missed.outcome, Outcome::Missed(vec![nothing]));
    assert_eq!(cluster.status(node), NodeStatus::Ready);
    let late = cluster.sync(node, old, Vec::new());
    assert_eq!(late.outcome, Outcome::Refused(Refusal::NotInSession(node)));
}

#[test]
fn another_host_cannot_take_over_a_nodes_id() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let mut thief = registration(1);
    thief.secret_hash = Digest([8; 32]);
    assert_eq!(
        cluster.hello(thief).outcome,
        Outcome::Refused(Refusal::WrongSecret(node))
    );
}

#[test]
fn an_unknown_node_needs_facts_and_a_token() {
    let mut cluster = Harness::new();
    let node = node_id(1);
    let outcome = cluster.hello(knock(1, 1, SessionEpoch(9))).outcome;
    assert_eq!(outcome, Outcome::Refused(Refusal::NeedsFacts(node)));
    let mut denied = registration(1);
    denied.join = JoinVerdict::Denied;
    assert_eq!(
        cluster.hello(denied).outcome,
        Outcome::Refused(Refusal::JoinDenied(node))
    );
}

#[test]
fn an_overdue_report_costs_the_session() {
    let mut cluster = Harness::new();
    let epoch = cluster.welcome(registration(1)).epoch;
    let node = node_id(1);
    cluster.done(Command::SyncRejected { node, epoch });
    assert_eq!(
        cluster
            .tables()
            .node(node)
            .expect("the node")
            .session
            .syncs_rejected,
        1
    );
    let closed = cluster.done(Command::SyncDeadline {
        nodes: vec![(node, epoch)],
    });
    assert!(closed.signals.contains(&Signal::NodeSessionClosed(node)));
    let late = cluster.sync(node, epoch, Vec::new());
    assert_eq!(late.outcome, Outcome::Refused(Refusal::NotInSession(node)));
    // The same Hello would get the same session, but that one is gone.
    assert_eq!(
        cluster.tables().answer_hello(&registration(1)),
        HelloAnswer::Propose
    );
}

#[test]
fn new_facts_never_change_the_status() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let agent = job("agent", JobType::System);
    cluster.register(&agent);
    let mut changed = facts(1);
    changed
        .attributes
        .insert("kernel.version".to_owned(), "6.12".to_owned());
    let epoch = cluster.epoch(node);
    let command = |facts| Command::NodeFacts {
        node,
        epoch,
        facts: std::sync::Arc::new(facts),
    };
    cluster.done(command(changed.clone()));
    assert_eq!(cluster.status(node), NodeStatus::Ready);
    let triggers = cluster.pending(&agent.key());
    assert_eq!(
        triggers,
        [EvalTrigger::JobRegister, EvalTrigger::NodeUpdate]
    );
    assert_eq!(cluster.apply(command(changed)).outcome, Outcome::NoOp);
}

/// What is asked of the scheduler when a ready node says this of itself anew.
fn asked_for(change: impl Fn(&mut protocol_model::Node)) -> Vec<EvalTrigger> {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let agent = job("agent", JobType::System);
    cluster.register(&agent);
    let mut changed = facts(1);
    change(&mut changed);
    assert_ne!(changed, facts(1));
    let applied = cluster.apply(Command::NodeFacts {
        node,
        epoch: cluster.epoch(node),
        facts: std::sync::Arc::new(changed),
    });
    assert_eq!(applied.outcome, Outcome::Done);
    let freed = |signal: &Signal| matches!(signal, Signal::CapacityFreed { .. });
    let asked = cluster.pending(&agent.key()).split_off(1);
    assert_eq!(applied.signals.iter().any(freed), !asked.is_empty());
    asked
}

#[test]
fn a_new_name_of_a_node_is_looked_at_since_jobs_may_ask_for_it() {
    let asked = asked_for(|node| node.name = "another".to_owned());
    assert_eq!(asked, [EvalTrigger::NodeUpdate]);
}

#[test]
fn what_a_node_says_for_people_only_is_looked_at_by_nobody() {
    let asked = asked_for(|node| node.http_addr = "192.0.2.1:4646".to_owned());
    assert_eq!(asked, []);
}

#[test]
fn a_purged_node_has_to_register_again_and_its_jobs_are_looked_at() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    cluster.place(&web.key(), node);
    let last = cluster.epoch(node);
    cluster.done(Command::NodePurge { node });
    assert!(cluster.tables().node(node).is_none());
    assert!(
        cluster
            .pending(&web.key())
            .contains(&EvalTrigger::NodeUpdate)
    );
    let outcome = cluster.hello(knock(1, 2, last)).outcome;
    assert_eq!(outcome, Outcome::Refused(Refusal::NeedsFacts(node)));
    // It has no history with this cluster: nothing it was ever told of can be missing.
    let epoch = cluster.welcome(registration(1)).epoch;
    let synced = NodeSynced {
        node,
        epoch,
        watch_index: 0,
        changed: Vec::new(),
        unchanged: Vec::new(),
        facts: None,
    };
    cluster.done(Command::NodeSynced(Box::new(synced)));
    assert_eq!(
        cluster
            .tables()
            .node_columns()
            .row(node)
            .expect("the row")
            .allocs_holding,
        1
    );
}
