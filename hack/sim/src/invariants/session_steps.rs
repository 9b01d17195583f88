//! A node's status changes only by the events that the table of sessions lists, and epochs only
//! rise. The table is written down here once more, independently of the product's.

use std::collections::BTreeMap;

use controlplane_state::{Command, Snapshot};
use protocol_model::{NodeId, NodeStatus as Is};

use super::{Invariant, Observation};
use crate::world::World;

/// What each node is by the steps that were looked at: no other entry makes it anything else.
#[derive(Debug, Default)]
pub(super) struct SessionSteps {
    known: BTreeMap<NodeId, Is>,
}

impl Invariant for SessionSteps {
    fn name(&self) -> &'static str {
        "session_steps"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, States: every way back goes through initializing (hole 1)"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match seen {
            Observation::Applied {
                before,
                after,
                command,
                ..
            } if concerns_nodes(command) => self.step(before, after, command),
            Observation::Second => self.compare(world),
            _ => Ok(()),
        }
    }
}

impl SessionSteps {
    fn step(
        &mut self,
        before: &Snapshot,
        after: &Snapshot,
        command: &Command,
    ) -> Result<(), String> {
        // Side by side: both are ordered by id, and there may be thousands.
        let mut known = before.nodes().peekable();
        for record in after.nodes() {
            while known.next_if(|it| it.node.id < record.node.id).is_some() {}
            let Some(old) = known.next_if(|it| it.node.id == record.node.id) else {
                if record.node.status != Is::Initializing {
                    return Err(format!("a new node is {}", record.node.status.as_str()));
                }
                self.known.insert(record.node.id, record.node.status);
                continue;
            };
            if std::sync::Arc::ptr_eq(old, record) {
                continue;
            }
            let (from, to) = (old.node.status, record.node.status);
            if from != to && !allowed(from, to, command) {
                return Err(format!(
                    "node {}: {} to {} by {command:?}",
                    record.node.name,
                    from.as_str(),
                    to.as_str()
                ));
            }
            self.known.insert(record.node.id, to);
            let (old, new) = (old.session.epoch.0, record.session.epoch.0);
            if new < old && new != 0 {
                return Err(format!("node {}: epoch {old} to {new}", record.node.name));
            }
        }
        Ok(())
    }

    fn compare(&self, world: &World) -> Result<(), String> {
        for record in world.state().nodes() {
            let known = self.known.get(&record.node.id).copied();
            if known != Some(record.node.status) {
                return Err(format!(
                    "node {} is {} by an entry that says nothing of nodes, and was {known:?}",
                    record.node.name,
                    record.node.status.as_str()
                ));
            }
        }
        Ok(())
    }
}

fn concerns_nodes(command: &Command) -> bool {
    !matches!(
        command,
        Command::AllocUpdates { .. }
            | Command::PlanApply(_)
            | Command::EvalsUpsert { .. }
            | Command::EvalsDelete(_)
            | Command::JobRegister(_)
            | Command::Barrier
    )
}

fn allowed(from: Is, to: Is, command: &Command) -> bool {
    match (from, to) {
        (Is::Initializing, Is::Ready) => matches!(command, Command::NodeSynced(_)),
        (Is::Ready | Is::Disconnected | Is::Down, Is::Initializing) => {
            matches!(command, Command::NodeHello(_))
        }
        (Is::Initializing | Is::Ready, Is::Disconnected | Is::Down) => {
            matches!(command, Command::HeartbeatMissed { .. })
        }
        (Is::Disconnected, Is::Down) => matches!(command, Command::WindowExpired { .. }),
        _ => false,
    }
}
