//! Drains: every state of a node's drain against every event, and what marks hold.

use std::collections::BTreeMap;

use controlplane_state::command::{DrainMark, DrainMarks, NodeDrainSet};
use controlplane_state::{Command, Outcome, Refusal};
use protocol_model::{
    AllocId, ClientStatus, DesiredTransition, DrainSpec, DrainStatus, Eligibility, EvalTrigger,
    JobType, MigrateStrategy, NodeId,
};

use crate::harness::{Harness, job, says};

/// The state of a node's drain before an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    None,
    Empty,
    Busy,
    Complete,
    Canceled,
    Silent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Set,
    End,
    EndEligible,
    Complete,
    CompleteOld,
    Mark,
    MarkOld,
    Eligible,
}

/// The effect of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Nothing,
    Refused,
    Begins,
    Updates,
    Cancels,
    Completes,
    Marks,
    MakesEligible,
}

const SECOND: i64 = 1_000_000_000;

fn set(node: NodeId, drain: Option<DrainSpec>, eligibility_after: Eligibility) -> Command {
    Command::NodeDrainSet(NodeDrainSet {
        node,
        drain,
        eligibility_after,
        accessor_id: String::new(),
        meta: None,
    })
}

fn within(deadline: i64) -> Option<DrainSpec> {
    Some(DrainSpec {
        deadline,
        ignore_system_jobs: false,
    })
}

fn index(cluster: &Harness, node: NodeId) -> u64 {
    let record = cluster.tables().node(node).expect("known");
    record.drain_index
}

fn mark(node: NodeId, drain_index: u64, alloc: AllocId, mark: DrainMark) -> Command {
    let marks = DrainMarks {
        node,
        drain_index,
        marks: vec![(alloc, mark)],
    };
    Command::AllocsMigrate { nodes: vec![marks] }
}

/// A node with one running allocation of a service, drained as said.
fn scene(before: Before) -> (Harness, NodeId, AllocId) {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let mut web = job("web", JobType::Service);
    web.task_groups[0].count = Some(1);
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    if before != Before::None {
        cluster.done(set(node, within(0), Eligibility::Ineligible));
    }
    if matches!(before, Before::Empty | Before::Complete) {
        cluster.stop(alloc);
        cluster.report(node, vec![says(alloc, 2, ClientStatus::Complete)]);
    }
    match before {
        Before::Complete => {
            let drain_index = index(&cluster, node);
            cluster.done(Command::NodeDrainComplete { node, drain_index });
        }
        Before::Canceled => {
            cluster.done(set(node, None, Eligibility::Ineligible));
        }
        Before::Silent => {
            cluster.silent(node);
        }
        Before::None | Before::Empty | Before::Busy => {}
    }
    (cluster, node, alloc)
}

fn command(cluster: &Harness, node: NodeId, alloc: AllocId, event: Event) -> Command {
    let drain_index = index(cluster, node);
    match event {
        Event::Set => set(node, within(5 * SECOND), Eligibility::Eligible),
        Event::End => set(node, None, Eligibility::Ineligible),
        Event::EndEligible => set(node, None, Eligibility::Eligible),
        Event::Complete => Command::NodeDrainComplete { node, drain_index },
        Event::CompleteOld => Command::NodeDrainComplete {
            node,
            drain_index: drain_index + 1,
        },
        Event::Mark => mark(node, drain_index, alloc, DrainMark::Migrate),
        Event::MarkOld => mark(node, drain_index + 1, alloc, DrainMark::Migrate),
        Event::Eligible => Command::NodeEligibility {
            node,
            eligibility: Eligibility::Eligible,
        },
    }
}

fn expected(before: Before, event: Event) -> Does {
    let draining = matches!(before, Before::Empty | Before::Busy | Before::Silent);
    match (event, before) {
        (Event::Set, _) if draining => Does::Updates,
        (Event::Set, _) => Does::Begins,
        (Event::End | Event::EndEligible, _) if draining => Does::Cancels,
        (Event::End, _) => Does::Nothing,
        (Event::EndEligible | Event::Eligible, Before::None) => Does::Nothing,
        (Event::EndEligible, _) => Does::MakesEligible,
        (Event::Complete, Before::Empty) => Does::Completes,
        (Event::Complete | Event::CompleteOld, _) => Does::Refused,
        (Event::Mark, Before::Busy) => Does::Marks,
        (Event::Mark | Event::MarkOld, _) => Does::Nothing,
        (Event::Eligible, _) if draining => Does::Refused,
        (Event::Eligible, _) => Does::MakesEligible,
    }
}

fn check(before: Before, event: Event) {
    let (mut cluster, node, alloc) = scene(before);
    let command = command(&cluster, node, alloc, event);
    let earlier = cluster.tables().node(node).expect("known").clone();
    let outcome = cluster.apply(command).outcome;
    let record = cluster.tables().node(node).expect("known").clone();
    let (old, new) = (&earlier.node, &record.node);
    let message = |text: &str| {
        let newest = new.events.last().expect("one");
        assert_eq!(
            (newest.message.as_str(), newest.subsystem.as_str()),
            (text, "Drain")
        );
    };
    let last = || new.last_drain.clone().expect("one");
    let case = format!("{before:?} {event:?}: {outcome:?}");
    match expected(before, event) {
        Does::Nothing => {
            assert_eq!(outcome, Outcome::NoOp, "{case}");
            assert_eq!(old, new, "{case}");
        }
        Does::Refused => assert!(matches!(outcome, Outcome::Refused(_)), "{case}"),
        Does::Begins => {
            message("Node drain strategy set");
            assert_eq!(last().status, DrainStatus::Draining, "{case}");
            assert_eq!(last().started_at, cluster.now, "{case}");
            assert!(!new.ready(), "{case}");
        }
        Does::Updates => {
            message("Node drain strategy updated");
            let (old, new) = (
                old.drain_strategy.expect("one"),
                new.drain_strategy.expect("one"),
            );
            assert_eq!(old.started_at, new.started_at, "{case}");
            let deadline = cluster
                .now
                .saturating_add(std::time::Duration::from_secs(5));
            assert_eq!(new.force_deadline, Some(deadline), "{case}");
            assert!(record.drain_index > earlier.drain_index, "{case}");
        }
        Does::Cancels => {
            message("Node drain disabled");
            assert_eq!(last().status, DrainStatus::Canceled, "{case}");
            assert!(!new.drain, "{case}");
            let eligible = new.scheduling_eligibility == Eligibility::Eligible;
            assert_eq!(eligible, event == Event::EndEligible, "{case}");
        }
        Does::Completes => {
            message("Node drain complete");
            assert_eq!(last().status, DrainStatus::Complete, "{case}");
            assert!(!new.drain, "{case}");
            assert_eq!(
                new.scheduling_eligibility,
                Eligibility::Ineligible,
                "{case}"
            );
        }
        Does::Marks => {
            assert!(matches!(outcome, Outcome::Evaluated(ids) if ids.len() == 1));
            assert!(cluster.alloc(alloc).desired_transition.should_migrate());
        }
        Does::MakesEligible => {
            assert_eq!(new.scheduling_eligibility, Eligibility::Eligible, "{case}");
            assert_eq!(old.last_drain, new.last_drain, "{case}");
        }
    }
}

#[test]
fn every_event_in_every_state_of_a_drain_does_what_the_table_says() {
    let states = [
        Before::None,
        Before::Empty,
        Before::Busy,
        Before::Complete,
        Before::Canceled,
        Before::Silent,
    ];
    let events = [
        Event::Set,
        Event::End,
        Event::EndEligible,
        Event::Complete,
        Event::CompleteOld,
        Event::Mark,
        Event::MarkOld,
        Event::Eligible,
    ];
    for before in states {
        for event in events {
            check(before, event);
        }
    }
}

#[test]
fn a_draining_node_cannot_be_made_eligible_in_nomads_words() {
    let (mut cluster, node, alloc) = scene(Before::Busy);
    let refused = cluster.apply(command(&cluster, node, alloc, Event::Eligible));
    let Outcome::Refused(refusal) = refused.outcome else {
        panic!("{refused:?}")
    };
    assert_eq!(refusal, Refusal::NodeDraining(node));
    let text = "can not set node's scheduling eligibility to eligible while it is draining";
    assert_eq!(refusal.to_string(), text);
}

#[test]
fn notes_are_kept_until_others_are_given() {
    let (mut cluster, node, _) = scene(Before::None);
    let notes = |text: &str| BTreeMap::from([("message".to_owned(), text.to_owned())]);
    let noted = |meta, accessor: &str| {
        Command::NodeDrainSet(NodeDrainSet {
            node,
            drain: within(0),
            eligibility_after: Eligibility::Ineligible,
            accessor_id: accessor.to_owned(),
            meta,
        })
    };
    let last = |cluster: &Harness| {
        let record = cluster.tables().node(node).expect("known");
        let last = record.node.last_drain.clone().expect("one");
        (last.meta, last.accessor_id)
    };
    cluster.done(noted(Some(notes("disk")), "ada"));
    cluster.done(noted(None, ""));
    assert_eq!(last(&cluster), (notes("disk"), "ada".to_owned()));
    cluster.done(noted(Some(notes("fan")), "bob"));
    assert_eq!(last(&cluster), (notes("fan"), "bob".to_owned()));
    cluster.done(set(node, None, Eligibility::Ineligible));
    assert_eq!(last(&cluster).0, notes("fan"));
    cluster.done(set(node, within(0), Eligibility::Ineligible));
    assert_eq!(
        last(&cluster),
        (BTreeMap::new(), String::new()),
        "another drain"
    );
}

#[test]
fn a_service_is_stopped_by_force_only_after_the_deadline() {
    let (mut cluster, node, alloc) = scene(Before::None);
    cluster.done(set(node, within(10 * SECOND), Eligibility::Ineligible));
    let forced = mark(node, index(&cluster, node), alloc, DrainMark::ForceStop);
    assert_eq!(cluster.apply(forced.clone()).outcome, Outcome::NoOp);
    cluster.pass(std::time::Duration::from_secs(10));
    let gentle = mark(node, index(&cluster, node), alloc, DrainMark::Migrate);
    assert_eq!(
        cluster.apply(gentle).outcome,
        Outcome::NoOp,
        "too late for that"
    );
    let Outcome::Evaluated(evals) = cluster.apply(forced).outcome else {
        panic!("it is marked")
    };
    assert_eq!(evals.len(), 1);
    let transition = cluster.alloc(alloc).desired_transition;
    assert!(transition.should_force_stop() && transition.should_migrate());
}

#[test]
fn a_drain_that_reached_its_deadline_says_so_when_it_is_complete() {
    for (deadline, reached) in [(3600 * SECOND, false), (SECOND, true), (-1, true)] {
        let (mut cluster, node, alloc) = scene(Before::None);
        cluster.done(set(node, within(deadline), Eligibility::Ineligible));
        cluster.stop(alloc);
        cluster.report(node, vec![says(alloc, 2, ClientStatus::Complete)]);
        let drain_index = index(&cluster, node);
        cluster.done(Command::NodeDrainComplete { node, drain_index });
        let record = cluster.tables().node(node).expect("known");
        let details = &record.node.events.last().expect("one").details;
        let said = details.get("deadline_reached").map(String::as_str);
        assert_eq!(said == Some("true"), reached, "{deadline}");
    }
}

/// A job of this type with one running allocation on a node that drains.
fn draining(job_type: JobType, spec: DrainSpec) -> (Harness, NodeId, AllocId) {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let job = job("job", job_type);
    cluster.register(&job);
    let alloc = cluster.place(&job.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    cluster.done(set(node, Some(spec), Eligibility::Ineligible));
    (cluster, node, alloc)
}

#[test]
fn batch_work_runs_on_until_the_deadline_and_then_gets_no_successor() {
    for job_type in [JobType::Batch, JobType::Sysbatch] {
        let spec = within(10 * SECOND).expect("a deadline");
        let (mut cluster, node, alloc) = draining(job_type, spec);
        let drain_index = index(&cluster, node);
        for wrong in [DrainMark::Migrate, DrainMark::End, DrainMark::ForceStop] {
            let early = mark(node, drain_index, alloc, wrong);
            assert_eq!(cluster.apply(early).outcome, Outcome::NoOp, "{wrong:?}");
        }
        cluster.pass(std::time::Duration::from_secs(10));
        cluster.done(mark(node, drain_index, alloc, DrainMark::End));
        assert!(cluster.alloc(alloc).desired_transition.ends_here());
    }
}

#[test]
fn system_jobs_leave_last_and_stay_where_they_are_ignored() {
    for ignore_system_jobs in [false, true] {
        let spec = DrainSpec {
            deadline: 0,
            ignore_system_jobs,
        };
        let (mut cluster, node, agent) = draining(JobType::System, spec);
        let drain_index = index(&cluster, node);
        let marked = mark(node, drain_index, agent, DrainMark::Migrate);
        let complete = Command::NodeDrainComplete { node, drain_index };
        if ignore_system_jobs {
            assert_eq!(cluster.apply(marked).outcome, Outcome::NoOp);
            cluster.done(complete);
            assert!(!cluster.alloc(agent).terminal());
        } else {
            let refused = cluster.apply(complete.clone()).outcome;
            assert_eq!(refused, Outcome::Refused(Refusal::DrainNotOver(node)));
            cluster.done(marked);
            assert!(cluster.alloc(agent).desired_transition.should_migrate());
        }
    }
}

#[test]
fn a_system_job_waits_for_what_is_being_stopped() {
    let spec = within(0).expect("no deadline");
    let (mut cluster, node, agent) = draining(JobType::System, spec);
    cluster.done(set(node, None, Eligibility::Eligible));
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 2, ClientStatus::Running)]);
    cluster.done(set(node, within(0), Eligibility::Ineligible));
    let marked = mark(node, index(&cluster, node), agent, DrainMark::Migrate);
    cluster.stop(alloc);
    assert_eq!(cluster.apply(marked.clone()).outcome, Outcome::NoOp);
    cluster.report(node, vec![says(alloc, 3, ClientStatus::Complete)]);
    assert!(matches!(
        cluster.apply(marked).outcome,
        Outcome::Evaluated(_)
    ));
}

#[test]
fn two_leaders_take_no_more_turns_than_there_are() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let mut web = job("web", JobType::Service);
    web.task_groups[0].count = Some(4);
    web.task_groups[0].migrate = Some(MigrateStrategy {
        max_parallel: Some(2),
        health_check: Some("manual".to_owned()),
        ..MigrateStrategy::default()
    });
    cluster.register(&web);
    let allocs: Vec<AllocId> = (0..4).map(|_| cluster.place(&web.key(), node)).collect();
    let reports = allocs.iter().map(|id| says(*id, 1, ClientStatus::Running));
    cluster.report(node, reports.collect());
    cluster.done(set(node, within(0), Eligibility::Ineligible));
    let drain_index = index(&cluster, node);
    for _ in 0..2 {
        let marks = DrainMarks {
            node,
            drain_index,
            marks: allocs.iter().map(|id| (*id, DrainMark::Migrate)).collect(),
        };
        cluster.apply(Command::AllocsMigrate { nodes: vec![marks] });
        let marked = |id: &&AllocId| cluster.alloc(**id).desired_transition.should_migrate();
        assert_eq!(allocs.iter().filter(marked).count(), 2);
    }
    let triggers = cluster.pending(&web.key());
    assert!(triggers.contains(&EvalTrigger::NodeDrain));
}

#[test]
fn a_result_that_a_drain_ended_is_kept_like_any_other() {
    let spec = within(-1).expect("now");
    let (mut cluster, node, alloc) = draining(JobType::Batch, spec);
    cluster.done(mark(node, index(&cluster, node), alloc, DrainMark::End));
    cluster.stop(alloc);
    cluster.report(node, vec![says(alloc, 2, ClientStatus::Failed)]);
    let tables = cluster.tables();
    let stored = tables.alloc(alloc).expect("known");
    assert!(!tables.alloc_is_collectable(stored));
    let mut other = protocol_model::Allocation::clone(stored);
    other.desired_transition = DesiredTransition::default();
    assert!(
        tables.alloc_is_collectable(&other),
        "stopped by another hand"
    );
}
