//! What a watch tells: a map, then links of a chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::watch::{Chain, Encode, Link, LinkSizes};
use protocol_model::{AllocId, Allocation, ClientStatus, Job, JobType, NodeId, SpecHash};

use crate::harness::{Harness, job, says};

/// Every allocation counts one.
struct Ids;

impl Encode for Ids {
    type Spec = SpecHash;
    type Alloc = AllocId;

    fn spec(&mut self, hash: SpecHash, _: &Arc<Job>) -> Result<(SpecHash, usize), String> {
        Ok((hash, 0))
    }

    fn alloc(&mut self, alloc: Allocation, _: u32) -> Result<(AllocId, usize), String> {
        Ok((alloc.id, 1))
    }
}

const TWO: LinkSizes = LinkSizes { wanted: 1, max: 2 };

fn links(chain: &mut Chain, cluster: &Harness) -> Result<Vec<Link<SpecHash, AllocId>>, String> {
    chain.links(&cluster.state.snapshot(), &mut Ids, TWO)
}

/// A node with a service of so many allocations, placed one entry each.
fn placed(count: usize) -> (Harness, NodeId, Vec<AllocId>) {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let ids = (0..count).map(|_| cluster.place(&web.key(), node));
    let ids = ids.collect();
    (cluster, node, ids)
}

#[test]
fn a_map_is_filled_in_at_its_own_index_and_links_follow_without_a_gap() {
    let (cluster, node, ids) = placed(5);
    let mut chain = Chain::new(node, &BTreeMap::new());
    let map = chain.map(&cluster.state.snapshot());
    assert_eq!(map.allocs.len(), 5);
    let told = links(&mut chain, &cluster).expect("told");
    let sizes: Vec<usize> = told.iter().map(|link| link.changed.len()).collect();
    assert_eq!(sizes, [2, 2, 1]);
    for link in &told {
        assert_eq!((link.previous_index, link.index), (map.index, map.index));
    }
    let all: Vec<AllocId> = told.into_iter().flat_map(|link| link.changed).collect();
    assert_eq!(all, ids);
    assert_eq!(
        links(&mut chain, &cluster),
        Ok(Vec::new()),
        "no change, no link"
    );
}

#[test]
fn what_the_node_acts_on_already_is_not_told_again() {
    let (cluster, node, ids) = placed(2);
    let version = cluster.alloc(ids[0]).alloc_modify_index;
    let mut chain = Chain::new(node, &BTreeMap::from([(ids[0], version)]));
    chain.map(&cluster.state.snapshot());
    let told = links(&mut chain, &cluster).expect("told");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].changed, ids[1..]);
}

#[test]
fn links_end_between_indexes_and_a_specification_is_told_once() {
    let (mut cluster, node, _) = placed(1);
    let mut chain = Chain::new(node, &BTreeMap::new());
    let map = chain.map(&cluster.state.snapshot());
    assert_eq!(links(&mut chain, &cluster).expect("told")[0].specs.len(), 1);
    let web = job("web", JobType::Service).key();
    for _ in 0..3 {
        cluster.place(&web, node);
    }
    let told = links(&mut chain, &cluster).expect("told");
    let ends: Vec<(u64, u64)> = told
        .iter()
        .map(|it| (it.previous_index, it.index))
        .collect();
    let last = cluster.index;
    assert_eq!(ends, [(map.index, last - 1), (last - 1, last)]);
    assert!(told.iter().all(|link| link.specs.is_empty()));
}

#[test]
fn more_at_one_index_than_fits_ends_the_watch() {
    let (mut cluster, node, _) = placed(0);
    let mut chain = Chain::new(node, &BTreeMap::new());
    chain.map(&cluster.state.snapshot());
    let web = job("web", JobType::Service).key();
    let allocs: Vec<_> = (0..4).map(|_| cluster.alloc_for(&web, node, 10)).collect();
    cluster.plan(controlplane_state::command::PlanApply {
        placed: allocs.into_iter().map(Arc::new).collect(),
        ..Default::default()
    });
    let refused = links(&mut chain, &cluster).expect_err("too much");
    assert!(refused.contains("a new watch"), "{refused}");
    // The new watch's map lets them end anywhere.
    let mut chain = Chain::new(node, &BTreeMap::new());
    chain.map(&cluster.state.snapshot());
    assert_eq!(links(&mut chain, &cluster).expect("told").len(), 2);
}

#[test]
fn what_is_over_and_unknown_to_the_node_is_left_out_and_what_goes_is_removed() {
    let (mut cluster, node, ids) = placed(2);
    cluster.report(node, vec![says(ids[0], 1, ClientStatus::Failed)]);
    let mut chain = Chain::new(node, &BTreeMap::from([(ids[1], 0)]));
    let map = chain.map(&cluster.state.snapshot());
    assert_eq!(map.allocs.len(), 1, "the failed one is over");
    let mut knows = Chain::new(node, &ids.iter().map(|id| (*id, 1)).collect());
    knows.map(&cluster.state.snapshot());
    links(&mut knows, &cluster).expect("told");
    let web = job("web", JobType::Service).key();
    cluster.deregister(&web, controlplane_state::command::Purge::Keep);
    let collected = controlplane_state::command::GcCollect {
        allocs: vec![ids[0]],
        ..Default::default()
    };
    cluster.apply(controlplane_state::Command::GcCollect(collected));
    let told = links(&mut knows, &cluster).expect("told");
    assert_eq!(
        told.last().map(|link| link.removed.clone()),
        Some(vec![ids[0]])
    );
}

#[test]
fn a_session_that_goes_on_names_what_is_over_too_since_the_node_may_keep_it() {
    let (mut cluster, node, ids) = placed(2);
    cluster.report(node, vec![says(ids[0], 1, ClientStatus::Failed)]);
    let snapshot = cluster.state.snapshot();
    let named = |chain: &mut Chain| chain.map(&snapshot).allocs.len();
    assert_eq!(named(&mut Chain::new(node, &BTreeMap::new())), 1);
    let mut chain = Chain::after_resume(node, &snapshot);
    assert_eq!(named(&mut chain), 2);
    let told = links(&mut chain, &cluster).expect("told");
    let told: Vec<AllocId> = told.into_iter().flat_map(|link| link.changed).collect();
    assert_eq!(told.len(), 2);
}
