//! The watch of a session starts only after its report was taken in, at an index that shows it.

use super::{Invariant, Observation};
use crate::node_ids::node_id;
use crate::world::World;

#[derive(Debug)]
pub(super) struct MapAfterSync;

impl Invariant for MapAfterSync {
    fn name(&self) -> &'static str {
        "map_after_sync"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, The handshake, 4: the watch starts at an index >= that command's"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::MapSent { node, epoch, index } = seen else {
            return Ok(());
        };
        let Some(record) = world.state().node(node_id(*node)) else {
            return Ok(());
        };
        let session = &record.session;
        if session.epoch != *epoch {
            return Ok(());
        }
        if session.synced_index == 0 || *index < session.synced_index {
            return Err(format!(
                "n{node} is sent a map at {index}, its report is at {}",
                session.synced_index
            ));
        }
        Ok(())
    }
}
