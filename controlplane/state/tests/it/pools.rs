//! Node pools: made by operators and by nodes, in use, deleted.

use std::sync::Arc;

use controlplane_state::command::{JobRegister, Purge};
use controlplane_state::{
    Command, NodePool, Outcome, PoolScheduler, Refusal, SchedulerAlgorithm, SchedulerConfig, State,
    Table, invariants,
};
use protocol_model::{ClientStatus, JobKey, JobType, Node};

use crate::harness::{Harness, facts, job, node_id, registration, says};

/// A pool with settings of its own.
pub(crate) fn batch() -> NodePool {
    NodePool {
        name: "batch".to_owned(),
        description: "for the night".to_owned(),
        scheduler: Some(PoolScheduler {
            algorithm: Some(SchedulerAlgorithm::Spread),
            memory_oversubscription: None,
        }),
        ..NodePool::default()
    }
}

fn upsert(cluster: &mut Harness, pool: NodePool) -> Outcome {
    cluster.apply(Command::NodePoolUpsert { pool }).outcome
}

fn delete(cluster: &mut Harness, name: &str) -> Outcome {
    let name = name.to_owned();
    cluster.apply(Command::NodePoolDelete { name }).outcome
}

/// Ends what is to be evaluated of a job.
fn end_evals(cluster: &mut Harness, key: &JobKey) {
    let open = cluster.tables().evals_by_job(key);
    let open = open.filter(|eval| !eval.status.is_terminal());
    let ids: Vec<_> = open.map(|eval| eval.id).collect();
    let evals = ids.into_iter().map(|id| cluster.finished(id)).collect();
    cluster.done(Command::EvalsUpsert { evals });
}

fn names(cluster: &Harness) -> Vec<&str> {
    let pools = cluster.tables().node_pools();
    pools.map(|pool| pool.name.as_str()).collect()
}

/// Tells new facts of a node: it is in this pool now.
fn move_node(cluster: &mut Harness, number: u128, pool: &str) -> Outcome {
    let node = node_id(number);
    let record = cluster.tables().node(node).expect("the node");
    let epoch = record.session.epoch;
    let facts = Arc::new(Node {
        node_pool: pool.to_owned(),
        ..Node::clone(&record.node)
    });
    let command = Command::NodeFacts { node, epoch, facts };
    cluster.apply(command).outcome
}

#[test]
fn a_pool_keeps_its_create_index_and_repeating_it_changes_nothing() {
    let mut cluster = Harness::new();
    assert_eq!(names(&cluster), ["all", "default"]);
    assert_eq!(upsert(&mut cluster, batch()), Outcome::Done);
    let made = cluster.index;
    assert_eq!(upsert(&mut cluster, batch()), Outcome::NoOp);
    let table = |cluster: &Harness| cluster.tables().table_index(&[Table::NodePools]);
    assert_eq!(table(&cluster), made);
    let mut other = batch();
    other.description.clear();
    assert_eq!(upsert(&mut cluster, other), Outcome::Done);
    let pool = cluster.tables().node_pool("batch").expect("the pool");
    assert_eq!((pool.create_index, pool.modify_index), (made, made + 2));
    assert_eq!(table(&cluster), made + 2);
}

#[test]
fn built_in_pools_are_neither_changed_nor_deleted() {
    let mut cluster = Harness::new();
    for name in ["all", "default"] {
        let pool = NodePool {
            name: name.to_owned(),
            ..batch()
        };
        let refusal = Refusal::PoolNotChangeable(name.to_owned());
        let words = format!("modifying node pool \"{name}\" is not allowed");
        assert_eq!(refusal.to_string(), words);
        assert_eq!(upsert(&mut cluster, pool), Outcome::Refused(refusal));
        let refusal = Refusal::PoolNotDeletable(name.to_owned());
        assert_eq!(delete(&mut cluster, name), Outcome::Refused(refusal));
    }
}

#[test]
fn a_node_makes_its_pool_and_keeps_it_from_being_deleted() {
    let mut cluster = Harness::new();
    cluster.join(1);
    assert_eq!(move_node(&mut cluster, 1, "batch"), Outcome::Done);
    let made = cluster.index;
    let pool = cluster.tables().node_pool("batch").expect("the pool");
    assert_eq!((pool.create_index, pool.description.as_str()), (made, ""));
    let refusal = Refusal::PoolHasNodes("batch".to_owned());
    assert_eq!(delete(&mut cluster, "batch"), Outcome::Refused(refusal));
    // The settings of a pool that a node made can be given later.
    assert_eq!(upsert(&mut cluster, batch()), Outcome::Done);
    move_node(&mut cluster, 1, "default");
    assert_eq!(delete(&mut cluster, "batch"), Outcome::Done);
    assert_eq!(names(&cluster), ["all", "default"]);
    let refusal = Refusal::UnknownNodePool("batch".to_owned());
    assert_eq!(delete(&mut cluster, "batch"), Outcome::Refused(refusal));
}

#[test]
fn no_node_is_in_the_pool_all_or_in_one_without_a_name() {
    let mut cluster = Harness::new();
    cluster.join(1);
    for name in ["all", "", "a b"] {
        let refusal = Outcome::Refused(Refusal::PoolTakesNoNodes(name.to_owned()));
        assert_eq!(move_node(&mut cluster, 1, name), refusal);
        let mut hello = registration(2);
        let mut unknown = facts(2);
        unknown.node_pool = name.to_owned();
        hello.facts = Some(Arc::new(unknown));
        assert_eq!(cluster.hello(hello).outcome, refusal);
    }
    assert_eq!(names(&cluster), ["all", "default"]);
}

#[test]
fn a_job_needs_its_pool_and_keeps_it_until_it_is_over() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let mut web = job("web", JobType::Service);
    web.node_pool = "batch".to_owned();
    let register = Command::JobRegister(JobRegister {
        spec: web.spec_hash(),
        job: Arc::new(web.clone()),
        eval: None,
        enforce_index: None,
        submission: None,
    });
    let Outcome::Refused(refusal) = cluster.apply(register).outcome else {
        panic!("the pool is unknown");
    };
    let words = "job \"web\" is in nonexistent node pool \"batch\"";
    assert_eq!(refusal.to_string(), words);
    upsert(&mut cluster, batch());
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    let refused = Outcome::Refused(Refusal::PoolHasJobs("batch".to_owned()));
    assert_eq!(delete(&mut cluster, "batch"), refused);
    cluster.deregister(&web.key(), Purge::Keep);
    assert_eq!(delete(&mut cluster, "batch"), refused, "it runs still");
    end_evals(&mut cluster, &web.key());
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Complete)]);
    end_evals(&mut cluster, &web.key());
    assert_eq!(delete(&mut cluster, "batch"), Outcome::Done);
}

#[test]
fn a_pool_replaces_the_settings_that_it_has_in_both_directions() {
    let mut cluster = Harness::new();
    let config = SchedulerConfig {
        memory_oversubscription: true,
        ..SchedulerConfig::default()
    };
    cluster.done(Command::SchedulerConfigSet {
        config,
        enforce_index: None,
    });
    upsert(&mut cluster, batch());
    let of = |cluster: &Harness, name: &str| {
        let config = cluster.tables().scheduler_config_of_pool(name);
        (config.algorithm, config.memory_oversubscription)
    };
    assert_eq!(of(&cluster, "batch"), (SchedulerAlgorithm::Spread, true));
    assert_eq!(of(&cluster, "default"), (SchedulerAlgorithm::Binpack, true));
    let mut off = batch();
    off.scheduler = Some(PoolScheduler {
        algorithm: None,
        memory_oversubscription: Some(false),
    });
    upsert(&mut cluster, off);
    assert_eq!(of(&cluster, "batch"), (SchedulerAlgorithm::Binpack, false));
}

#[test]
fn a_deleted_pool_of_a_dead_job_does_not_return_with_a_checkpoint() {
    let mut cluster = Harness::new();
    let mut web = job("web", JobType::Service);
    web.node_pool = "batch".to_owned();
    upsert(&mut cluster, batch());
    cluster.register(&web);
    cluster.deregister(&web.key(), Purge::Keep);
    end_evals(&mut cluster, &web.key());
    assert_eq!(delete(&mut cluster, "batch"), Outcome::Done);
    let restored = State::restore(cluster.checkpoint().as_slice()).expect("a state");
    let difference = invariants::difference(cluster.tables(), restored.tables());
    assert_eq!(difference, None);
}
