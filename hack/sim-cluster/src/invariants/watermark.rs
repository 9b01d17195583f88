//! Nodes never go back in time: the watermark only rises within an incarnation, and a restart of
//! the daemon keeps it.

use std::collections::BTreeMap;

use noded_core::Watermark;

use super::Invariant;
use crate::eyes::{Observation, View};
use crate::net::Machine;

/// Per node, the boot, and the highest watermark of it.
#[derive(Debug, Default)]
pub(super) struct WatermarkRises {
    moved: BTreeMap<Machine, ([u8; 16], Watermark)>,
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

    fn on(&mut self, seen: &Observation<'_>, _: &View) -> Result<(), String> {
        let (node, to) = match seen {
            Observation::WatermarkMoved { node, watermark } => (*node, *watermark),
            Observation::DaemonStarted {
                node,
                boot,
                watermark,
            } => {
                let known = self.moved.entry(*node).or_default();
                if known.0 != *boot {
                    // What was written and not on the disk may be gone.
                    *known = (*boot, *watermark);
                }
                (*node, *watermark)
            }
            _ => return Ok(()),
        };
        let known = self.moved.entry(node).or_default();
        let from = std::mem::replace(&mut known.1, to);
        match goes_back(from, to) {
            false => Ok(()),
            true => Err(format!("n{node}: from {from:?} to {to:?}")),
        }
    }
}
