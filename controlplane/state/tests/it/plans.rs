//! Plans: all or nothing, and never beyond what a node has.

use std::sync::Arc;

use controlplane_state::command::{AllocChange, Change, NodeBatch, PlanApply, Preempted};
use controlplane_state::fit::Exhausted;
use controlplane_state::{
    Command, NodeRejected, NodeRejection, Outcome, Refusal, Signal, UpdateClass,
};
use protocol_model::{
    AllocId, AllocatedPort, Allocation, ClientStatus, DesiredStatus, DesiredTransition,
    Eligibility, EvalStatus, JobType,
};

use crate::harness::{Harness, job, resources, says};

fn cluster() -> (Harness, protocol_model::NodeId, protocol_model::JobKey) {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    (cluster, node, web.key())
}

#[test]
fn a_placement_is_pending_and_its_node_is_told() {
    let (mut cluster, node, key) = cluster();
    let alloc = cluster.alloc_for(&key, node, 100);
    let id = alloc.id;
    let applied = cluster.plan(PlanApply {
        placed: vec![Arc::new(alloc)],
        ..PlanApply::default()
    });
    let allocs = vec![id];
    assert!(
        applied
            .signals
            .contains(&Signal::AllocsDesired { node, allocs })
    );
    let alloc = cluster.alloc(id);
    assert_eq!(alloc.create_index, cluster.index);
    assert_eq!(alloc.alloc_modify_index, cluster.index);
    assert_eq!(alloc.node_name, "node-1");
}

#[test]
fn a_plan_that_does_not_fit_changes_nothing_and_names_the_node() {
    let (mut cluster, node, key) = cluster();
    let small = cluster.alloc_for(&key, node, 600);
    let large = cluster.alloc_for(&key, node, 500);
    let placed = vec![Arc::new(small), Arc::new(large)];
    let applied = cluster.plan(PlanApply {
        placed,
        ..PlanApply::default()
    });
    let reason = NodeRejection::Exhausted(Exhausted::Cpu);
    let rejected = Refusal::PlanRejected(vec![NodeRejected { node, reason }]);
    assert_eq!(applied.outcome, Outcome::Refused(rejected));
    assert_eq!(cluster.tables().allocs().count(), 0);
}

#[test]
fn a_stop_in_the_same_plan_makes_room() {
    let (mut cluster, node, key) = cluster();
    let first = cluster.alloc_for(&key, node, 800);
    let old = first.id;
    cluster.plan(PlanApply {
        placed: vec![Arc::new(first)],
        ..PlanApply::default()
    });
    let mut second = cluster.alloc_for(&key, node, 900);
    second.previous_allocation = Some(old);
    let new = second.id;
    let change = Change::Stop {
        description: "alloc is being updated due to job update".to_owned(),
        client_status: None,
        followup_eval: None,
    };
    let plan = PlanApply {
        placed: vec![Arc::new(second)],
        changed: vec![AllocChange { id: old, change }],
        ..PlanApply::default()
    };
    assert_eq!(cluster.plan(plan).outcome, Outcome::PlanApplied);
    let old = cluster.alloc(old);
    assert_eq!(
        (old.desired_status, old.next_allocation),
        (DesiredStatus::Stop, Some(new))
    );
}

/// What a plan that stops `id` says.
fn stops(id: AllocId) -> AllocChange {
    let change = Change::Stop {
        description: "alloc not needed".to_owned(),
        client_status: None,
        followup_eval: None,
    };
    AllocChange { id, change }
}

#[test]
fn a_stopping_allocation_holds_its_room_until_its_node_reports_its_end() {
    let (mut cluster, node, key) = cluster();
    let old = cluster.alloc_for(&key, node, 800);
    let id = old.id;
    let place = |alloc: &Allocation| PlanApply {
        placed: vec![Arc::new(alloc.clone())],
        ..PlanApply::default()
    };
    cluster.plan(place(&old));
    cluster.report(node, vec![says(id, 1, ClientStatus::Running)]);
    let stopped = cluster.plan(PlanApply {
        changed: vec![stops(id)],
        ..PlanApply::default()
    });
    let frees = |signal: &Signal| matches!(signal, Signal::CapacityFreed { .. });
    assert!(!stopped.signals.iter().any(frees), "nothing is free yet");
    let new = cluster.alloc_for(&key, node, 900);
    let reason = NodeRejection::Exhausted(Exhausted::Cpu);
    let rejected = Refusal::PlanRejected(vec![NodeRejected { node, reason }]);
    assert_eq!(
        cluster.plan(place(&new)).outcome,
        Outcome::Refused(rejected)
    );
    let epoch = cluster.epoch(node);
    let ended = cluster.apply(Command::AllocUpdates {
        batches: vec![NodeBatch {
            node,
            epoch,
            class: UpdateClass::Urgent,
            seq: 9,
            reports: vec![says(id, 2, ClientStatus::Complete)],
        }],
    });
    assert!(ended.signals.iter().any(frees), "its end unblocks others");
    assert_eq!(cluster.plan(place(&new)).outcome, Outcome::PlanApplied);
}

#[test]
fn what_an_earlier_piece_of_a_plan_stopped_is_free_for_the_next_one() {
    let (mut cluster, node, key) = cluster();
    let other = job("other", JobType::Service);
    cluster.register(&other);
    let old = cluster.alloc_for(&key, node, 800);
    let id = old.id;
    cluster.plan(PlanApply {
        placed: vec![Arc::new(old)],
        ..PlanApply::default()
    });
    let snapshot_index = cluster.index;
    let piece = PlanApply {
        snapshot_index,
        changed: vec![stops(id)],
        ..PlanApply::default()
    };
    assert_eq!(cluster.plan(piece).outcome, Outcome::PlanApplied);
    let mut tried = |snapshot_index, key: &protocol_model::JobKey| {
        let placed = vec![Arc::new(cluster.alloc_for(key, node, 900))];
        let piece = PlanApply {
            snapshot_index,
            placed,
            ..PlanApply::default()
        };
        cluster.plan(piece).outcome
    };
    let reason = NodeRejection::Exhausted(Exhausted::Cpu);
    let rejected = Outcome::Refused(Refusal::PlanRejected(vec![NodeRejected { node, reason }]));
    assert_eq!(tried(snapshot_index, &other.key()), rejected, "another job");
    assert_eq!(tried(snapshot_index + 1, &key), rejected, "a later plan");
    assert_eq!(tried(snapshot_index, &key), Outcome::PlanApplied);
}

#[test]
fn a_port_is_given_once() {
    let (mut cluster, node, key) = cluster();
    let with_port = |cluster: &mut Harness| {
        let mut alloc = cluster.alloc_for(&key, node, 10);
        let port = AllocatedPort {
            label: "http".to_owned(),
            value: 8080,
            ..Default::default()
        };
        Arc::make_mut(&mut alloc.allocated_resources)
            .shared
            .ports
            .push(port);
        PlanApply {
            placed: vec![Arc::new(alloc)],
            ..PlanApply::default()
        }
    };
    let first = with_port(&mut cluster);
    assert_eq!(cluster.plan(first).outcome, Outcome::PlanApplied);
    let second = with_port(&mut cluster);
    let reason = NodeRejection::Exhausted(Exhausted::Port(8080));
    let rejected = Refusal::PlanRejected(vec![NodeRejected { node, reason }]);
    assert_eq!(cluster.plan(second).outcome, Outcome::Refused(rejected));
}

#[test]
fn nothing_is_placed_on_a_node_that_may_not_be_placed_on() {
    let (mut cluster, node, key) = cluster();
    let eligibility = Eligibility::Ineligible;
    cluster.done(Command::NodeEligibility { node, eligibility });
    let alloc = cluster.alloc_for(&key, node, 10);
    let plan = PlanApply {
        placed: vec![Arc::new(alloc)],
        ..PlanApply::default()
    };
    let reason = NodeRejection::NotReady;
    let rejected = Refusal::PlanRejected(vec![NodeRejected { node, reason }]);
    assert_eq!(cluster.plan(plan).outcome, Outcome::Refused(rejected));
}

#[test]
fn an_update_in_place_keeps_what_the_node_said() {
    let (mut cluster, node, key) = cluster();
    let id = cluster.place(&key, node);
    let planned = cluster.alloc(id);
    cluster.report(node, vec![says(id, 1, ClientStatus::Running)]);
    let mut updated = planned;
    updated.allocated_resources = resources(1000).into();
    let plan = PlanApply {
        updated: vec![Arc::new(updated.clone())],
        ..PlanApply::default()
    };
    assert_eq!(cluster.plan(plan).outcome, Outcome::PlanApplied);
    let alloc = cluster.alloc(id);
    assert_eq!(alloc.client_status, ClientStatus::Running);
    assert_eq!(alloc.alloc_modify_index, cluster.index);
    updated.allocated_resources = resources(1001).into();
    let plan = PlanApply {
        updated: vec![Arc::new(updated)],
        ..PlanApply::default()
    };
    let reason = NodeRejection::Exhausted(Exhausted::Cpu);
    let rejected = Refusal::PlanRejected(vec![NodeRejected { node, reason }]);
    assert_eq!(cluster.plan(plan).outcome, Outcome::Refused(rejected));
}

#[test]
fn an_update_in_place_takes_no_stop_back_that_was_asked_for_meanwhile() {
    let (mut cluster, node, key) = cluster();
    let id = cluster.place(&key, node);
    let planned = cluster.alloc(id);
    cluster.done(Command::AllocsStop {
        allocs: vec![(
            id,
            DesiredTransition {
                migrate: Some(true),
                ..DesiredTransition::default()
            },
        )],
        evals: Vec::new(),
    });
    let plan = PlanApply {
        updated: vec![Arc::new(planned)],
        ..PlanApply::default()
    };
    assert_eq!(cluster.plan(plan).outcome, Outcome::PlanApplied);
    assert!(cluster.alloc(id).desired_transition.should_migrate());
}

#[test]
fn a_stopped_allocation_cannot_be_updated_back_to_life() {
    let (mut cluster, node, key) = cluster();
    let id = cluster.place(&key, node);
    let planned = cluster.alloc(id);
    cluster.stop(id);
    let plan = PlanApply {
        updated: vec![Arc::new(planned)],
        ..PlanApply::default()
    };
    assert_eq!(
        cluster.plan(plan).outcome,
        Outcome::Refused(Refusal::AllocState(id))
    );
}

#[test]
fn an_allocations_id_is_never_used_twice() {
    let (mut cluster, node, key) = cluster();
    let id = cluster.place(&key, node);
    let mut again = cluster.alloc_for(&key, node, 10);
    again.id = id;
    let plan = PlanApply {
        placed: vec![Arc::new(again)],
        ..PlanApply::default()
    };
    assert_eq!(
        cluster.plan(plan).outcome,
        Outcome::Refused(Refusal::DuplicateAlloc(id))
    );
}

#[test]
fn a_plan_of_a_finished_evaluation_is_refused() {
    let (mut cluster, node, key) = cluster();
    let web = cluster.tables().job(&key).expect("the job").clone();
    let eval = cluster.register(&web);
    let finished = cluster.finished(eval);
    let plan = |cluster: &mut Harness| PlanApply {
        eval_id: Some(eval),
        placed: vec![Arc::new(cluster.alloc_for(&key, node, 10))],
        evals: vec![finished.clone()],
        ..PlanApply::default()
    };
    let first = plan(&mut cluster);
    assert_eq!(cluster.plan(first).outcome, Outcome::PlanApplied);
    assert_eq!(
        cluster.tables().eval(eval).expect("it").status,
        EvalStatus::Complete
    );
    let second = plan(&mut cluster);
    assert_eq!(
        cluster.plan(second).outcome,
        Outcome::Refused(Refusal::EvalTerminal(eval))
    );
}

#[test]
fn a_preempted_allocation_makes_room_and_says_for_whom() {
    let (mut cluster, node, key) = cluster();
    let victim = cluster.alloc_for(&key, node, 900);
    let id = victim.id;
    cluster.plan(PlanApply {
        placed: vec![Arc::new(victim)],
        ..PlanApply::default()
    });
    let urgent = cluster.alloc_for(&key, node, 900);
    let by = urgent.id;
    let plan = PlanApply {
        placed: vec![Arc::new(urgent)],
        preempted: vec![Preempted { id, by }],
        ..PlanApply::default()
    };
    assert_eq!(cluster.plan(plan).outcome, Outcome::PlanApplied);
    let victim = cluster.alloc(id);
    assert_eq!(victim.desired_status, DesiredStatus::Evict);
    assert_eq!(victim.preempted_by_allocation, Some(by));
}

#[test]
fn a_placed_job_no_longer_waits_for_capacity() {
    let (mut cluster, _, key) = cluster();
    let web = cluster.tables().job(&key).expect("the job").clone();
    let mut blocked = cluster.eval_of(&web);
    blocked.status = EvalStatus::Blocked;
    blocked.queued_allocations.insert("group".to_owned(), 2);
    let id = blocked.id;
    cluster.done(Command::EvalsUpsert {
        evals: vec![blocked],
    });
    assert_eq!(cluster.tables().job_summary(&key).groups["group"].queued, 2);
    let eval = cluster.register(&web);
    let mut finished = cluster.finished(eval);
    finished.queued_allocations.insert("group".to_owned(), 0);
    cluster.done(Command::EvalsUpsert {
        evals: vec![finished],
    });
    assert_eq!(
        cluster.tables().eval(id).expect("it").status,
        EvalStatus::Cancelled
    );
    assert_eq!(cluster.tables().job_summary(&key).groups["group"].queued, 0);
}
