//! A node's complete report: gathered part by part within bounds, then one command whatever its
//! size, committed beside the session's loop so that heartbeats go on being heard.
//!
//! A report of an allocation that runs takes a few dozen bytes when its like is compressed with
//! it, so a node of tens of thousands fits into one entry.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::news::CompleteReport;
use controlplane_state::{Command, Outcome, SessionEpoch};
use protocol_model::{Node, NodeId};
use protocol_transport::LineLimit;
use protocol_wire::report::AllocReport;
use protocol_wire::v1;

use super::detail::{self, AllocEvents, Told};
use super::{Gateway, reports};
use crate::cluster::{ChangeError, Changed};

/// Allocations in one complete report; a node with more is refused with a reason.
const REPORTS_MAX: usize = 100_000;
/// Bytes of all parts together, events included: what a session may hold in memory.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long a server behind the session's own index is waited for.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);

/// The parts that have come so far.
#[derive(Debug, Default)]
pub(super) struct Parts {
    next_part: u32,
    bytes: usize,
    reports: Vec<AllocReport>,
}

/// All parts.
#[derive(Debug)]
pub(super) struct Whole {
    reports: Vec<AllocReport>,
    watch_index: u64,
    /// What the node says of itself, where that changed.
    pub(super) facts: Option<v1::NodeFacts>,
}

impl Parts {
    /// Takes a part of `bytes`; the last one completes the report.
    ///
    /// # Errors
    /// When the part is not the next one, makes no sense, or the report gets too large.
    pub(super) fn take(
        &mut self,
        part: v1::SyncPart,
        bytes: usize,
    ) -> Result<Option<Whole>, String> {
        if part.part != self.next_part {
            return Err(format!(
                "part {} of the report, expected {}",
                part.part, self.next_part
            ));
        }
        self.next_part += 1;
        self.bytes += bytes;
        let count = self.reports.len() + part.allocs.len();
        if count > REPORTS_MAX {
            return Err(format!(
                "a complete report of more than {REPORTS_MAX} allocations"
            ));
        }
        if self.bytes > BYTES_MAX {
            return Err(format!(
                "a complete report of more than {BYTES_MAX} bytes ({count} allocations so far)"
            ));
        }
        let reports = reports::from_wire(part.allocs).map_err(|error| error.to_string())?;
        self.reports.extend(reports);
        if !part.last {
            return Ok(None);
        }
        // An older node does not say it.
        if part.allocs_total > 0 && part.allocs_total as usize != count {
            return Err(format!(
                "a complete report of {} allocations, of which {count} came",
                part.allocs_total
            ));
        }
        let Self { reports, .. } = std::mem::take(self);
        Ok(Some(Whole {
            reports,
            watch_index: part.watch_index,
            facts: part.facts,
        }))
    }
}

static NOT_COUNTED: LineLimit = LineLimit::new();

/// Counts a report that could not be taken: it stands at the node, whichever server it turns to
/// next. The session ends, and the next one brings all of it again.
pub(super) async fn count_rejected(gateway: &Gateway, node: NodeId, epoch: SessionEpoch) {
    metrics::counter!("drover_syncs_rejected").increment(1);
    let counted = gateway
        .cluster
        .change(Command::SyncRejected { node, epoch });
    if let Err(error) = counted.await
        && let Some(left_out) = NOT_COUNTED.admit()
    {
        tracing::warn!(
            %node, %error, left_out,
            "the rejected complete report was not counted in the node's record"
        );
    }
}

/// Whose report it is, and what the node was told before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reporter {
    pub(super) told: Told,
    /// Whether what the node knows is of this cluster's history.
    pub(super) ours: bool,
}

/// Commits a complete report and keeps what a session keeps of it. Answers the index.
///
/// # Errors
/// See [`ChangeError`]. One that does not fit into an entry is [`ChangeError::TooLarge`].
pub(super) async fn commit(
    gateway: Arc<Gateway>,
    reporter: Reporter,
    whole: Whole,
    facts: Option<Arc<Node>>,
) -> Result<u64, ChangeError> {
    let Reporter { told, ours } = reporter;
    let Told { node, epoch, .. } = told;
    let Whole {
        reports,
        watch_index,
        facts: _,
    } = whole;
    let volatile = detail::events(&reports);
    let report = CompleteReport {
        node,
        epoch,
        ours,
        watch_index,
        reports,
        facts,
    };
    let changed = propose(&gateway, &report).await?;
    if let Outcome::Synced { unknown, .. } = &changed.outcome {
        let unknown: BTreeSet<_> = unknown.iter().collect();
        let own = |events: &AllocEvents| !unknown.contains(&events.alloc());
        gateway.with_detail(node, epoch, |detail| {
            let own = volatile.into_iter().filter(own);
            detail.take_in(told, own.map(AllocEvents::of_sync));
        });
    }
    gateway.set_known(node, epoch, report.known());
    Ok(changed.index)
}

/// Proposes a report, and what of it is news still where an earlier one of the same session was
/// taken in first.
async fn propose(gateway: &Gateway, report: &CompleteReport) -> Result<Changed, ChangeError> {
    let CompleteReport { node, epoch, .. } = *report;
    let caught_up = async |index| {
        let deadline = tokio::time::Instant::now() + CATCH_UP_MAX;
        gateway.cluster.at_least(index, deadline).await
    };
    // What is news is decided against a state that knows this session; a follower may lag.
    let snapshot = caught_up(epoch.0).await?;
    let command = Command::NodeSynced(Box::new(report.command(&snapshot)));
    drop(snapshot);
    let changed = gateway.cluster.change(command).await?;
    let snapshot = caught_up(changed.index).await?;
    let was_first = snapshot
        .node(node)
        .is_none_or(|record| record.session.synced_index == changed.index);
    // What was the same as in the state may not be the same as in the report that was on its way.
    if was_first || !report.is_news(&snapshot) {
        return Ok(changed);
    }
    let command = Command::NodeSynced(Box::new(report.command(&snapshot)));
    drop(snapshot);
    gateway.cluster.change(command).await
}

#[cfg(test)]
mod tests {
    use protocol_model::{AllocId, ClientStatus};

    use super::*;

    fn part(number: u32, last: bool) -> v1::SyncPart {
        let report = AllocReport::new(
            AllocId::from_u128(u128::from(number)),
            1,
            ClientStatus::Running,
        );
        v1::SyncPart {
            part: number,
            last,
            allocs: vec![(&report).into()],
            ..v1::SyncPart::default()
        }
    }

    #[test]
    fn parts_add_up_to_one_report() {
        let mut parts = Parts::default();
        assert!(parts.take(part(0, false), 10).expect("taken").is_none());
        let whole = parts.take(part(1, true), 10).expect("taken");
        assert_eq!(whole.expect("complete").reports.len(), 2);
        // The next report begins anew.
        assert!(parts.take(part(0, true), 10).expect("taken").is_some());
    }

    #[test]
    fn a_part_out_of_order_is_refused() {
        let mut parts = Parts::default();
        let refused = parts.take(part(1, false), 10).expect_err("refused");
        assert!(refused.contains("expected 0"), "{refused}");
    }

    #[test]
    fn a_report_of_which_something_is_missing_is_refused() {
        let total = |allocs_total| v1::SyncPart {
            allocs_total,
            ..part(1, true)
        };
        for (said, fits) in [(0, true), (1, false), (2, true), (3, false)] {
            let mut parts = Parts::default();
            parts.take(part(0, false), 10).expect("taken");
            let taken = parts.take(total(said), 10);
            assert_eq!(taken.is_ok(), fits, "{said}: {taken:?}");
        }
    }

    #[test]
    fn a_report_is_bounded_in_bytes_while_it_arrives() {
        let mut parts = Parts::default();
        parts.take(part(0, false), BYTES_MAX).expect("fits exactly");
        let refused = parts.take(part(1, true), 1).expect_err("refused");
        assert!(refused.contains("2 allocations so far"), "{refused}");
    }

    #[test]
    fn a_report_is_bounded_in_allocations() {
        let mut parts = Parts::default();
        let mut huge = part(0, true);
        huge.allocs = vec![v1::AllocReport::default(); REPORTS_MAX + 1];
        let refused = parts.take(huge, 10).expect_err("refused");
        assert!(
            refused.contains("more than 100000 allocations"),
            "{refused}"
        );
    }
}
