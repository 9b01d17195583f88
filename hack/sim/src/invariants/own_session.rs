//! What is taken in was said in the session that there is: a batch of an earlier one says nothing.

use std::collections::BTreeSet;

use controlplane_state::{Command, Outcome, UpdateClass};
use noded_core::effect::UpdateClass as NodeClass;

use super::{Invariant, Observation};
use crate::event::NodeIx;
use crate::node_ids::node_ix;
use crate::world::World;

/// Every batch that a node sent: its node, epoch, whether it was urgent, and its number.
#[derive(Debug, Default)]
pub(super) struct OwnSession {
    sent: BTreeSet<(NodeIx, u64, bool, u64)>,
}

impl Invariant for OwnSession {
    fn name(&self) -> &'static str {
        "own_session"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, States: a message with another epoch is rejected"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &World) -> Result<(), String> {
        match seen {
            Observation::BatchSent { node, batch } => {
                let urgent = batch.class == NodeClass::Urgent;
                self.sent.insert((*node, batch.epoch.0, urgent, batch.seq));
                Ok(())
            }
            Observation::Applied {
                command: Command::AllocUpdates { batches },
                applied,
                ..
            } => {
                let Outcome::Updates(results) = &applied.outcome else {
                    return Ok(());
                };
                for (batch, result) in batches.iter().zip(results) {
                    let node = node_ix(batch.node);
                    let urgent = batch.class == UpdateClass::Urgent;
                    let said = (node, batch.epoch.0, urgent, batch.seq);
                    if result.rejected.is_none() && !self.sent.contains(&said) {
                        return Err(format!(
                            "n{node}: a batch is taken in that was not sent in session {}",
                            batch.epoch
                        ));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
