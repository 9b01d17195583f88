//! A node is ready only after the control plane has taken in the complete report that the node
//! itself sent in this very session, and then the state says what the report said: what it left out
//! is over, unless the node cannot know of it yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::command::NodeSynced;
use controlplane_state::{Command, Outcome, Snapshot};
use protocol_model::{AllocId, Allocation, ClientStatus, NodeStatus};

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
                let status = |it: &Snapshot| it.node(synced.node).map(|record| record.node.status);
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
                if let Some((id, said)) = forgotten {
                    return Err(format!(
                        "n{node} is ready, said {said:?} of {}, and the state says otherwise",
                        id.short()
                    ));
                }
                match left_out(after, synced, said) {
                    None => Ok(()),
                    Some(alloc) => Err(format!(
                        "n{node} is ready, said nothing of {}, and it is {}",
                        alloc.id.short(),
                        alloc.client_status.as_str()
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}

/// What the node left out of its report although it was told of it, and the state has still.
fn left_out<'a>(
    after: &'a Snapshot,
    synced: &NodeSynced,
    said: &BTreeMap<AllocId, Vec<ClientStatus>>,
) -> Option<&'a Allocation> {
    let mut allocs = after.allocs_on_node(synced.node);
    let stays = |alloc: &&Arc<Allocation>| {
        let untold =
            alloc.client_status == ClientStatus::Pending && alloc.create_index > synced.watch_index;
        !said.contains_key(&alloc.id) && !alloc.client_terminal() && !untold
    };
    allocs.find(stays).map(AsRef::as_ref)
}
