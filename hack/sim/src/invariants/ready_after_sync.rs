//! A node is ready only after the control plane has taken in the complete report that the node
//! itself sent in this very session, and then the state says what the report said.

use std::collections::BTreeMap;

use controlplane_state::{Command, Outcome};
use protocol_model::{AllocId, ClientStatus, NodeStatus};

use super::{Invariant, Observation};
use crate::event::NodeIx;
use crate::node_ids::node_ix;
use crate::world::World;

/// Per node, the epoch of its newest report and what it said in it: more than once, where an answer
/// was long on its way. Each of its reports may be the one that is taken in first.
#[derive(Debug, Default)]
pub(super) struct ReadyAfterSync {
    sent: BTreeMap<NodeIx, (u64, BTreeMap<AllocId, Vec<ClientStatus>>)>,
}

impl Invariant for ReadyAfterSync {
    fn name(&self) -> &'static str {
        "ready_after_sync"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, the promise (holes 1 and 2)"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &World) -> Result<(), String> {
        match seen {
            Observation::SyncSent {
                node,
                epoch,
                reports,
            } => {
                let (known, said) = self.sent.entry(*node).or_default();
                if known != epoch {
                    said.clear();
                }
                *known = *epoch;
                for report in *reports {
                    let words = said.entry(report.id).or_default();
                    words.push(report.client_status);
                }
                Ok(())
            }
            Observation::Applied {
                before,
                after,
                command: Command::NodeSynced(synced),
                applied,
            } if matches!(applied.outcome, Outcome::Synced { .. }) => {
                let status = |it: &controlplane_state::Snapshot| {
                    it.node(synced.node).map(|record| record.node.status)
                };
                if status(before) == Some(NodeStatus::Ready)
                    || status(after) != Some(NodeStatus::Ready)
                {
                    return Ok(());
                }
                let node = node_ix(synced.node);
                let Some((epoch, said)) = self.sent.get(&node) else {
                    return Err(format!("n{node} is ready and never reported"));
                };
                if *epoch != synced.epoch.0 {
                    let epoch = synced.epoch;
                    return Err(format!("n{node} is ready in {epoch} without a report"));
                }
                let forgotten = said.iter().find(|(id, said)| {
                    after.alloc(**id).is_some_and(|alloc| {
                        alloc.node_id == synced.node
                            && !alloc.client_terminal()
                            && !said.contains(&alloc.client_status)
                    })
                });
                match forgotten {
                    None => Ok(()),
                    Some((id, said)) => Err(format!(
                        "n{node} is ready, said {said:?} of {}, and the state says otherwise",
                        id.short()
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}
