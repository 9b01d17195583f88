//! A node becomes ready in a session only with the complete report of that session.

use protocol_model::NodeStatus;

use super::Invariant;
use crate::eyes::{Observation, View};

#[derive(Debug)]
pub(super) struct ReadyAfterSync;

impl Invariant for ReadyAfterSync {
    fn name(&self) -> &'static str {
        "ready_after_sync"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, the promise (holes 1 and 2)"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &View) -> Result<(), String> {
        let Observation::Applied { after, .. } = seen else {
            return Ok(());
        };
        for record in after.nodes() {
            let session = &record.session;
            let synced = session.synced_index > session.epoch.0;
            if record.node.status == NodeStatus::Ready && !synced {
                return Err(format!(
                    "{} is ready in session {}, its last report is of index {}",
                    record.node.name, session.epoch, session.synced_index
                ));
            }
        }
        Ok(())
    }
}
