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

fn rises(
    floors: &mut BTreeMap<NodeIx, Watermark>,
    node: NodeIx,
    to: Watermark,
) -> Result<(), String> {
    let from = floors.insert(node, to).unwrap_or_default();
    if goes_back(from, to) {
        return Err(format!("n{node}: from {from:?} to {to:?}"));
    }
    Ok(())
}

impl Invariant for WatermarkRises {
    fn name(&self) -> &'static str {
        "watermark"
    }

    fn source(&self) -> &'static str {
        "architecture, invariant 9: nodes never go back in time (hole 5)"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &World) -> Result<(), String> {
        let (node, to, boot) = match seen {
            Observation::WatermarkMoved { node, watermark } => {
                return rises(&mut self.moved, *node, *watermark);
            }
            Observation::HelloSent {
                node, watermark, ..
            } => {
                return rises(&mut self.promised, *node, *watermark);
            }
            Observation::DaemonStarted {
                node,
                boot,
                watermark,
            } => (*node, *watermark, *boot),
            _ => return Ok(()),
        };
        if boot == Boot::Another {
            // What was written and not on the disk may be gone.
            self.moved.insert(node, to);
        }
        rises(&mut self.moved, node, to)?;
        rises(&mut self.promised, node, to)
    }
}
