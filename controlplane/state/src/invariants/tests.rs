//! Each rule finds what breaks it, in a state that is sound otherwise: no transition can break one,
//! so that what the simulators ask after every command would hold of a checker that sees nothing.

use std::sync::Arc;

use protocol_model::{
    Deployment, DeploymentId, DeploymentState, DeploymentStatus, EvalId, EvalTrigger, Evaluation,
    JobKey, JobStatus, JobType, NodeId, NodeStatus, UnixNanos,
};

use super::{Rule, check};
use crate::record::{DeploymentRecord, NodeRecord};
use crate::state::State;
use crate::tables::{EvalTally, Tables};
use crate::usage::Usage;

fn rules(tables: &Tables) -> Vec<Rule> {
    check(tables).iter().map(|found| found.rule).collect()
}

/// Two nodes and a job with a failed allocation and one that goes on.
fn sound() -> Tables {
    let checkpoint = include_bytes!("../../tests/golden/v2/checkpoint.bin");
    let state = State::restore(checkpoint.as_slice()).expect("a state");
    let tables = state.into_tables();
    assert_eq!(check(&tables), []);
    tables
}

fn assert_found(rule: Rule, break_it: impl FnOnce(&mut Tables)) {
    let mut tables = sound();
    break_it(&mut tables);
    let found = rules(&tables);
    assert!(found.contains(&rule), "{rule:?} is not among {found:?}");
}

/// The node of the allocation that goes on.
fn used_node(tables: &Tables) -> NodeId {
    let mut allocs = tables.allocs();
    let goes_on = allocs.find(|alloc| !alloc.terminal());
    goes_on.expect("an allocation that goes on").node_id
}

fn change_node(tables: &mut Tables, change: impl FnOnce(&mut NodeRecord)) {
    let node = used_node(tables);
    let record = tables.nodes.get_mut(&node).expect("its node");
    change(Arc::make_mut(record));
}

#[test]
fn a_specification_that_nobody_refers_to_is_found() {
    assert_found(Rule::SpecReferences, |tables| {
        let (hash, mut spec) = tables.specs.get_min().expect("a specification").clone();
        spec.references += 1;
        tables.specs.insert(hash, spec);
    });
}

#[test]
fn a_pool_that_is_missing_is_found() {
    assert_found(Rule::NodePools, |tables| {
        tables.node_pools.remove("all");
    });
    assert_found(Rule::NodePools, |tables| {
        change_node(tables, |record| {
            Arc::make_mut(&mut record.node).node_pool = "gone".to_owned();
        });
    });
}

#[test]
fn usage_that_nobody_has_is_found() {
    assert_found(Rule::NodeColumns, |tables| {
        let node = used_node(tables);
        let usage = Usage {
            memory_mb: 1,
            ..Usage::default()
        };
        tables.columns.add_usage(node, &usage);
    });
}

#[test]
fn more_than_a_node_has_is_found() {
    assert_found(Rule::OverCommitment, |tables| {
        let node = used_node(tables);
        let usage = Usage {
            memory_mb: 1 << 40,
            ..Usage::default()
        };
        tables.columns.add_usage(node, &usage);
    });
}

#[test]
fn a_job_that_is_called_dead_and_is_not_is_found() {
    assert_found(Rule::JobStatus, |tables| {
        let (key, record) = tables.jobs.get_min().expect("a job").clone();
        let mut record = (*record).clone();
        let job = Arc::make_mut(&mut record.job);
        assert_ne!(job.status, JobStatus::Dead);
        job.status = JobStatus::Dead;
        tables.jobs.insert(key, Arc::new(record));
    });
}

#[test]
fn a_child_that_is_not_counted_is_found() {
    assert_found(Rule::Children, |tables| {
        let (key, record) = tables.jobs.get_min().expect("a job").clone();
        let mut record = (*record).clone();
        Arc::make_mut(&mut record.job).parent_id = "work".to_owned();
        tables.jobs.insert(key, Arc::new(record));
    });
}

#[test]
fn a_node_that_is_ready_without_a_session_is_found() {
    assert_found(Rule::NodeSession, |tables| {
        change_node(tables, |record| {
            assert_eq!(record.node.status, NodeStatus::Ready);
            record.session.synced_index = 0;
        });
    });
}

#[test]
fn a_row_from_a_later_entry_than_the_newest_is_found() {
    assert_found(Rule::RowIndexes, |tables| {
        let (id, mut record) = tables.allocs.get_min().expect("an allocation").clone();
        Arc::make_mut(&mut record.alloc).modify_index = tables.index + 1;
        tables.allocs.insert(id, record);
    });
}

#[test]
fn more_judged_than_were_placed_is_found() {
    assert_found(Rule::DeploymentCounters, |tables| {
        let id = DeploymentId::from_u128(1);
        let group = DeploymentState {
            healthy_allocs: 1,
            ..DeploymentState::default()
        };
        let key = tables.jobs.get_min().expect("a job").0.clone();
        let deployment = Arc::new(Deployment {
            id,
            namespace: key.namespace,
            job_id: key.id,
            job_version: 0,
            job_modify_index: 0,
            job_spec_modify_index: 0,
            job_create_index: 0,
            is_multiregion: false,
            task_groups: [("group".to_owned(), group)].into(),
            status: DeploymentStatus::Running,
            status_description: String::new(),
            eval_priority: 0,
            create_index: 1,
            modify_index: 1,
            create_time: UnixNanos(0),
            modify_time: UnixNanos(0),
        });
        let record = DeploymentRecord {
            deployment,
            spec: None,
        };
        tables.deployments.insert(id, record);
    });
}

// --- what is derived, in a state with nothing else ---

fn with_an_evaluation() -> (Tables, JobKey, EvalId) {
    let key = JobKey::new("default", "web");
    let id = EvalId::from_u128(1);
    let (trigger, now) = (EvalTrigger::JobRegister, UnixNanos(1));
    let mut eval = Evaluation::new(id, &key, JobType::Service, 50, trigger, now);
    (eval.create_index, eval.modify_index) = (3, 3);
    let mut tables = Tables {
        index: 3,
        ..Tables::default()
    };
    tables.put_eval(&Arc::new(eval));
    (tables, key, id)
}

#[test]
fn what_is_derived_and_right_is_not_complained_of() {
    let (tables, ..) = with_an_evaluation();
    assert_eq!(check(&tables), []);
}

#[test]
fn a_row_that_its_index_lacks_is_found() {
    let (mut tables, key, _) = with_an_evaluation();
    tables.eval_tallies.remove(&key);
    assert!(rules(&tables).contains(&Rule::SecondaryIndex));
}

#[test]
fn an_index_that_names_a_row_under_another_key_or_one_that_is_not_there_is_found() {
    let (tables, key, id) = with_an_evaluation();
    let mut elsewhere = tables.clone();
    let tally = elsewhere.eval_tallies.remove(&key);
    let other = Arc::new(JobKey::new("default", "other"));
    elsewhere.eval_tallies.extend(tally.map(|it| (other, it)));
    assert!(rules(&elsewhere).contains(&Rule::SecondaryIndex));

    let mut twice = tables.clone();
    let of_no_job = twice.eval_jobs_numbered + 1;
    twice.evals_by_job.insert((of_no_job, (3, id)));
    assert!(rules(&twice).contains(&Rule::SecondaryIndex));

    let mut gone = tables.clone();
    gone.evals.remove(&(3, id));
    assert!(rules(&gone).contains(&Rule::SecondaryIndex));
}

#[test]
fn a_counter_that_is_wrong_or_of_nothing_is_found() {
    let (tables, key, _) = with_an_evaluation();
    let mut wrong = tables.clone();
    wrong.eval_tallies.get_mut(&key).unwrap().live += 1;
    assert_eq!(rules(&wrong), [Rule::JobTally]);

    let mut of_nothing = tables.clone();
    let other = JobKey::new("default", "other");
    let nothing = EvalTally::of_job(of_nothing.eval_jobs_numbered + 1);
    of_nothing
        .eval_tallies
        .insert(Arc::new(other.clone()), nothing);
    assert_eq!(rules(&of_nothing), [Rule::JobTally]);
    let mut of_nothing = tables;
    of_nothing.alloc_tallies.insert(other, Arc::default());
    assert_eq!(rules(&of_nothing), [Rule::JobTally]);
}

#[test]
fn a_counter_of_allocations_that_is_wrong_or_missing_is_found() {
    assert_found(Rule::JobTally, |tables| {
        let key = tables.alloc_tallies.keys().next().unwrap().clone();
        let tally = tables.alloc_tallies.get_mut(&key).unwrap();
        Arc::make_mut(tally).live += 1;
    });
    assert_found(Rule::JobTally, |tables| tables.alloc_tallies.clear());
}
