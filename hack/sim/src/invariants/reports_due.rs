//! A session does not owe its complete report for ever, and a node without a session does not stay
//! initializing.

use std::collections::BTreeMap;

use controlplane_state::SessionEpoch;
use protocol_model::{NodeId, NodeStatus};

use super::{Invariant, Observation};
use crate::node_ids::node_ix;
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// How long a report may be owed, what a new leader adds, and a margin for slow servers and logs.
const REPORTED_WITHIN: Nanos = 45 * SECOND;
/// How long a node may take to knock anew, a detection period, and the same margin.
const KNOCKS_WITHIN: Nanos = 75 * SECOND;

/// Since when a node is initializing in its session.
#[derive(Debug, Default)]
pub(super) struct ReportsDue {
    owing: BTreeMap<NodeId, (SessionEpoch, Nanos)>,
}

impl Invariant for ReportsDue {
    fn name(&self) -> &'static str {
        "reports_due"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, States: SyncDeadline (hole 2: no node stays initializing)"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if !matches!(seen, Observation::Second | Observation::Rested) {
            return Ok(());
        }
        for record in world.state().nodes() {
            let (node, epoch) = (record.node.id, record.session.epoch);
            if record.node.status != NodeStatus::Initializing {
                self.owing.remove(&node);
                continue;
            }
            let entry = self.owing.entry(node).or_insert((epoch, world.now));
            if entry.0 != epoch {
                *entry = (epoch, world.now);
            }
            let lasts = world.now.saturating_sub(entry.1).min(world.minded_for());
            let limit = match epoch {
                SessionEpoch::NONE => KNOCKS_WITHIN,
                SessionEpoch(_) => REPORTED_WITHIN,
            };
            if lasts > limit {
                return Err(format!(
                    "n{} is initializing in session {epoch} for {} s",
                    node_ix(node),
                    lasts / SECOND
                ));
            }
        }
        Ok(())
    }
}
