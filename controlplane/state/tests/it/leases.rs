//! Groups that stop themselves: since when their nodes are not heard, and until when they may run.

use std::time::Duration;

use controlplane_state::command::GcCollect;
use controlplane_state::{Command, LeaseEnd, NodeRecord, Outcome};
use protocol_model::{
    AllocId, ClientStatus, EvalTrigger, Incarnation, Job, JobType, NodeId, NodeStatus, UnixNanos,
};

use crate::harness::{Harness, SECOND, job, knock, node_id, says, tolerant_job};

/// A minute of silence and the kill timeout, which is the default one, and five percent of both.
const LEASE: Duration = Duration::from_millis(68_250);
/// What the leader has to hear of a purge.
const HEARD: Duration = Duration::from_secs(3);

fn leased() -> Job {
    let mut job = job("web", JobType::Service);
    let group = &mut job.task_groups[0];
    group.stop_after_client_disconnect = Some(Duration::from_secs(60));
    group.tasks = vec![Default::default()];
    job
}

/// A node with one that stops itself, which runs.
pub(crate) fn cluster() -> (Harness, NodeId, AllocId) {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = leased();
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    (cluster, node, alloc)
}

fn silent_since(cluster: &Harness, node: NodeId) -> Option<UnixNanos> {
    let record = cluster.tables().node(node).expect("the node");
    record.silent_since()
}

fn lease_end(cluster: &Harness, alloc: AllocId) -> LeaseEnd {
    cluster.tables().lease_end(&cluster.alloc(alloc))
}

fn collected(cluster: &mut Harness, alloc: AllocId) -> bool {
    let allocs = vec![alloc];
    let names = GcCollect {
        allocs,
        ..GcCollect::default()
    };
    cluster.done(Command::GcCollect(names));
    cluster.tables().alloc(alloc).is_none()
}

#[test]
fn a_lease_counts_from_the_silence_and_not_from_the_end_of_the_windows_of_others() {
    let (mut cluster, node, alloc) = cluster();
    let window = Duration::from_secs(30);
    let other = tolerant_job("other", window);
    cluster.register(&other);
    let tolerated = cluster.place(&other.key(), node);
    assert_eq!(lease_end(&cluster, alloc), LeaseEnd::Extended);
    cluster.silent(node);
    let since = cluster.now;
    assert_eq!(cluster.status(node), NodeStatus::Disconnected);
    let end = LeaseEnd::At(since.saturating_add(LEASE));
    assert_eq!(lease_end(&cluster, alloc), end);
    assert_eq!(lease_end(&cluster, tolerated), LeaseEnd::NoLease);
    cluster.stop(tolerated);
    let nodes = vec![(node, cluster.epoch(node))];
    cluster.done(Command::WindowExpired { nodes });
    assert_eq!(cluster.status(node), NodeStatus::Down);
    assert_eq!(silent_since(&cluster, node), Some(since));
    assert_eq!(lease_end(&cluster, alloc), end);
    // It knocks, and extends the lease until it falls silent again.
    let last = cluster.epoch(node);
    cluster.welcome(knock(1, 2, last));
    assert_eq!(silent_since(&cluster, node), None);
    assert_eq!(lease_end(&cluster, alloc), LeaseEnd::Extended);
    cluster.silent(node);
    assert_eq!(silent_since(&cluster, node), Some(cluster.now));
}

#[test]
fn a_node_that_an_older_release_found_silent_is_so_since_its_status_changed() {
    let (mut cluster, node, _) = cluster();
    cluster.silent(node);
    let record = cluster.tables().node(node).expect("the node");
    let mut row = serde_json::to_value(&**record).expect("a row");
    let fields = row.as_object_mut().expect("of fields");
    assert!(fields.remove("fell_silent_at").is_some());
    let older: NodeRecord = serde_json::from_value(row).expect("it is read");
    let next_second = (older.node.status_updated_at + 1) * SECOND;
    assert_eq!(older.silent_since(), Some(UnixNanos(next_second)));
}

#[test]
fn a_lease_is_that_of_the_version_that_an_allocation_runs() {
    let (mut cluster, node, alloc) = cluster();
    cluster.stop(alloc);
    let mut newer = leased();
    newer.task_groups[0].stop_after_client_disconnect = None;
    cluster.register(&newer);
    cluster.silent(node);
    assert!(cluster.tables().is_on_lease(&cluster.alloc(alloc)));
    assert!(!collected(&mut cluster, alloc), "its record is what tells");
    cluster.pass(LEASE);
    assert!(collected(&mut cluster, alloc));
}

#[test]
fn what_stops_itself_in_either_version_makes_an_evaluation_when_it_ended() {
    let (mut cluster, node, alloc) = cluster();
    let mut newer = leased();
    newer.task_groups[0].stop_after_client_disconnect = None;
    cluster.register(&newer);
    let later = cluster.place(&newer.key(), node);
    cluster.register(&leased());
    for ended in [alloc, later] {
        cluster.stop(ended);
        let before = cluster.pending(&newer.key()).len();
        cluster.report(node, vec![says(ended, 2, ClientStatus::Complete)]);
        let pending = cluster.pending(&newer.key());
        assert_eq!(pending.len(), before + 1);
        assert!(pending.contains(&EvalTrigger::AllocStop));
    }
}

#[test]
fn what_stops_itself_on_a_purged_node_is_kept_until_its_lease_is_over() {
    let (mut cluster, node, alloc) = cluster();
    let plain = job("plain", JobType::Service);
    cluster.register(&plain);
    let other = cluster.place(&plain.key(), node);
    let ended = cluster.place(&leased().key(), node);
    cluster.report(node, vec![says(ended, 1, ClientStatus::Complete)]);
    let applied = cluster.done(Command::NodePurge { node });
    let Outcome::Evaluated(evals) = applied.outcome else {
        panic!("{:?}", applied.outcome);
    };
    assert_eq!(evals.len(), 2);
    let purged_at = cluster.now;
    let statuses = [alloc, other, ended].map(|id| cluster.alloc(id).client_status);
    let kept = [
        ClientStatus::Unknown,
        ClientStatus::Pending,
        ClientStatus::Complete,
    ];
    assert_eq!(statuses, kept);
    let end = purged_at.saturating_add(HEARD + LEASE);
    assert_eq!(lease_end(&cluster, alloc), LeaseEnd::At(end));
    cluster.stop(alloc);
    assert!(!collected(&mut cluster, alloc));
    cluster.pass(HEARD + LEASE);
    assert!(collected(&mut cluster, alloc));
}

#[test]
fn what_is_left_of_a_silent_node_counts_from_its_silence_when_it_is_purged() {
    let (mut cluster, node, alloc) = cluster();
    cluster.silent(node);
    let since = cluster.now;
    cluster.pass(Duration::from_secs(50));
    cluster.done(Command::NodePurge { node });
    let end = since.saturating_add(HEARD + LEASE);
    assert_eq!(lease_end(&cluster, alloc), LeaseEnd::At(end));
}

#[test]
fn what_is_left_of_a_node_that_was_purged_when_it_was_saved_counts_from_the_restore() {
    let (mut cluster, node, alloc) = cluster();
    cluster.join(2);
    cluster.silent(node_id(2));
    cluster.done(Command::NodePurge { node });
    let saved = cluster.checkpoint();
    // It registered anew, and what it ran went on.
    cluster.pass(Duration::from_secs(3600));
    cluster.restore(&saved, Incarnation::from_u128(0xc2), 1 << 20);
    let end = cluster.now.saturating_add(HEARD + LEASE);
    assert_eq!(lease_end(&cluster, alloc), LeaseEnd::At(end));
    let since = silent_since(&cluster, node_id(2));
    assert_eq!(since, Some(cluster.now), "so it is with silent ones");
}
