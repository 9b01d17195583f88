//! Nodes never go back in time: the watermark only rises within an incarnation, a restart of the
//! daemon keeps it, and one that was named in a Hello survives a crash of the host.

use std::collections::BTreeMap;

use noded_core::Watermark;
use noded_core::task_runner::Boot;

use super::{Invariant, Observation};
use crate::event::NodeIx;
use crate::world::World;

/// Per node, the highest watermark of this boot, and the highest that was promised.
#[derive(Debug, Default)]
pub(super) struct WatermarkRises {
    moved: BTreeMap<NodeIx, Watermark>,
    promised: BTreeMap<NodeIx, Watermark>,
}

fn goes_back(from: Watermark, to: Watermark) -> bool {
    from.incarnation == to.incarnation && to.index < from.index
        || from.incarnation.is_some() && to.incarnation.is_none()
}

impl Invariant for WatermarkRises {
    fn name(&self) -> &'static str {
        "watermark"
    }

    fn source(&self) -> &'static str {
        "architecture, invariant 9: nodes never go back in time (hole 5)"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &World) -> Result<(), String> {
        let (node, to, floors) = match seen {
            Observation::WatermarkMoved { node, watermark } => (node, watermark, &mut self.moved),
            Observation::HelloSent { node, watermark } => (node, watermark, &mut self.promised),
            Observation::DaemonStarted {
                node,
                boot: Boot::Same,
                watermark,
            } => (node, watermark, &mut self.moved),
            Observation::DaemonStarted {
                node,
                boot: Boot::Another,
                watermark,
            } => {
                self.moved.insert(*node, *watermark);
                (node, watermark, &mut self.promised)
            }
            _ => return Ok(()),
        };
        let from = floors.insert(*node, *to).unwrap_or_default();
        if goes_back(from, *to) {
            return Err(format!("n{node}: from {from:?} to {to:?}"));
        }
        Ok(())
    }
}
