//! A session goes on only where there is one: not one that was over before the node knocked, and
//! not that of a daemon which was started anew and has not reported since.

use std::collections::BTreeSet;

use controlplane_state::{SessionEpoch, Snapshot, WelcomeKind};
use protocol_model::NodeStatus;

use super::{Invariant, Observation};
use crate::event::NodeIx;
use crate::node_ids::node_id;
use crate::world::World;

/// Nodes whose daemons were started and have not sent a report.
#[derive(Debug, Default)]
pub(super) struct Resumes {
    silent: BTreeSet<NodeIx>,
}

/// Whether a node is in this session.
fn is_in(state: &Snapshot, node: NodeIx, epoch: SessionEpoch) -> bool {
    state.node(node_id(node)).is_some_and(|record| {
        let status = record.node.status;
        record.session.epoch == epoch
            && matches!(status, NodeStatus::Ready | NodeStatus::Initializing)
    })
}

impl Invariant for Resumes {
    fn name(&self) -> &'static str {
        "resumes"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Resume: ready, no heartbeat missed, and the daemon did not restart"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match seen {
            Observation::DaemonStarted { node, .. } => {
                self.silent.insert(*node);
            }
            Observation::SyncSent { node, .. } => {
                self.silent.remove(node);
            }
            Observation::Welcomed {
                node,
                server,
                welcome,
                asked,
            } if welcome.kind != WelcomeKind::New => {
                if welcome.kind == WelcomeKind::Resumed && self.silent.contains(node) {
                    return Err(format!(
                        "n{node} was started anew, and s{server} resumes it"
                    ));
                }
                // A leader that does not know yet that it is none answers for what it knows.
                let leads = world.believes_to_lead(*server);
                let there = |state: &Snapshot| is_in(state, *node, welcome.epoch);
                // One made meanwhile, by the same Hello said elsewhere, was none to be over.
                let was_made = welcome.epoch.0 <= asked.index();
                if !leads && was_made && !there(asked) && !there(world.newest()) {
                    return Err(format!(
                        "s{server} welcomes n{node} to session {}, which was over when it knocked",
                        welcome.epoch
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
