//! Where servers are in trouble one after the other, and nodes are well, no node is taken for
//! silent, and no allocation is given up.

use std::collections::BTreeSet;

use protocol_model::{ClientStatus, NodeId, NodeStatus};

use super::Invariant;
use crate::eyes::{Observation, View};
use crate::schedule::Scenario;

/// Nodes that were ready once.
#[derive(Debug, Default)]
pub(super) struct ServersAlone {
    were_ready: BTreeSet<NodeId>,
}

impl Invariant for ServersAlone {
    fn name(&self) -> &'static str {
        "servers_alone"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Liveness: the death of a server takes no node out of ready"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        let Observation::Applied { after, .. } = seen else {
            return Ok(());
        };
        if view.scenario != Scenario::OneServer {
            return Ok(());
        }
        for record in after.nodes() {
            let (id, status) = (record.node.id, record.node.status);
            match status {
                NodeStatus::Ready => {
                    self.were_ready.insert(id);
                }
                NodeStatus::Down | NodeStatus::Disconnected if self.were_ready.contains(&id) => {
                    let name = &record.node.name;
                    return Err(format!(
                        "{name} is {} for no fault of its own",
                        status.as_str()
                    ));
                }
                _ => {}
            }
        }
        let lost = after
            .allocs()
            .find(|alloc| alloc.client_status == ClientStatus::Lost);
        match lost {
            None => Ok(()),
            Some(alloc) => Err(format!("{} is given up", alloc.id.short())),
        }
    }
}
