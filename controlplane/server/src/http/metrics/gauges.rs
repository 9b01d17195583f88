//! Gauges: read from the log, the leader's loop and the state when somebody asks.

use std::collections::BTreeMap;
use std::time::Duration;

use controlplane_raft::RaftRole;
use controlplane_state::{GroupTally, Snapshot};
use protocol_model::{JobStatus, NodeStatus};
use tokio::time::Instant;

use super::{Reading, recorder};
use crate::http::Api;

/// Told where no node has them, too: a gauge that is gone looks like a server that is.
const NODE_STATUSES: [NodeStatus; 4] = [
    NodeStatus::Initializing,
    NodeStatus::Ready,
    NodeStatus::Down,
    NodeStatus::Disconnected,
];

fn reading(name: impl Into<String>, value: u64) -> Reading {
    #[expect(
        clippy::cast_precision_loss,
        reason = "gauges are shown, not computed with"
    )]
    let value = value as f64;
    Reading {
        name: name.into(),
        value,
    }
}

/// Everything that is read when somebody asks.
pub(super) fn gauges(api: &Api) -> Vec<Reading> {
    let snapshot = api.cluster.snapshot();
    let mut readings = server_gauges(api);
    readings.push(reading("nomad.state.latestIndex", snapshot.index()));
    readings.extend(state_gauges(&snapshot));
    readings.extend(recorder::registered_gauges());
    readings
}

/// This server's part in the log, and what its leader's loop says where it leads.
fn server_gauges(api: &Api) -> Vec<Reading> {
    let status = api.cluster.status();
    let leading = *api.leading.borrow();
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let mut named = vec![
        ("nomad.raft.appliedIndex", status.applied_index),
        ("nomad.raft.lastIndex", status.last_index),
        ("nomad.raft.commitIndex", status.committed_index),
        ("nomad.raft.snapshotIndex", status.snapshot_index),
        ("nomad.raft.term", status.term),
        (
            "nomad.raft.state.leader",
            u64::from(status.role == RaftRole::Leader),
        ),
        ("drover.node_sessions", count(api.gateway.session_count())),
        (
            "drover.heartbeat_pace_ms",
            millis(api.gateway.lateness().pace()),
        ),
    ];
    if leading.leading {
        let broker = leading.broker;
        named.extend([
            ("nomad.nomad.broker.total_ready", count(broker.ready)),
            ("nomad.nomad.broker.total_unacked", count(broker.in_flight)),
            ("nomad.nomad.broker.total_pending", count(broker.waiting)),
            ("nomad.nomad.broker.total_waiting", count(broker.delayed)),
            (
                "nomad.nomad.blocked_evals.total_blocked",
                count(leading.blocked),
            ),
            (
                "nomad.nomad.blocked_evals.total_escaped",
                count(leading.blocked_escaped),
            ),
            (
                "nomad.nomad.plan.queue_depth",
                count(leading.plans_in_flight),
            ),
            ("nomad.nomad.heartbeat.active", count(leading.nodes)),
        ]);
    }
    let admission = api.gateway.admission().state(Instant::now()).figures();
    let admission =
        admission.map(|(name, value)| reading(format!("drover.admission.{name}"), value));
    let named = named.into_iter();
    let named = named.map(|(name, value)| reading(name, value));
    named.chain(admission).collect()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// How many jobs, allocations and nodes are in which status.
fn state_gauges(snapshot: &Snapshot) -> Vec<Reading> {
    let mut jobs = BTreeMap::from([("pending", 0), ("running", 0), ("dead", 0)]);
    let mut sum = GroupTally::default();
    for (key, job) in snapshot.jobs() {
        *jobs.entry(JobStatus::as_str(job.status)).or_default() += 1;
        for group in snapshot.job_summary(key).groups.values() {
            let GroupTally {
                starting,
                running,
                complete,
                failed,
                lost,
                unknown,
            } = group.counts;
            sum.starting += starting;
            sum.running += running;
            sum.complete += complete;
            sum.failed += failed;
            sum.lost += lost;
            sum.unknown += unknown;
        }
    }
    let GroupTally {
        starting,
        running,
        complete,
        failed,
        lost,
        unknown,
    } = sum;
    let allocs = [
        ("starting", starting),
        ("running", running),
        ("complete", complete),
        ("failed", failed),
        ("lost", lost),
        ("unknown", unknown),
    ];
    let mut nodes: BTreeMap<&str, u64> =
        BTreeMap::from(NODE_STATUSES.map(|status| (NodeStatus::as_str(status), 0)));
    for record in snapshot.nodes() {
        *nodes
            .entry(NodeStatus::as_str(record.node.status))
            .or_default() += 1;
    }
    let named = |prefix: &'static str| {
        move |(status, number): (&str, u64)| reading(format!("{prefix}.{status}"), number)
    };
    jobs.into_iter()
        .map(named("nomad.nomad.job_status"))
        .chain(allocs.into_iter().map(named("drover.allocs")))
        .chain(nodes.into_iter().map(named("drover.nodes")))
        .collect()
}
