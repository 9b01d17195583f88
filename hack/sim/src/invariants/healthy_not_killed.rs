//! Neither a node nor its keeper ends a run that is wanted: no lagging server, no change of leaders
//! and no restart kills what is healthy. A group that asked to be stopped when its node is not
//! heard goes on all the same where nothing keeps the node from being heard.

use noded_core::RunKey;
use protocol_model::DesiredStatus;

use super::{Invariant, Observation};
use crate::event::NodeIx;
use crate::schedule::jobs::{Kind, LEASE};
use crate::time::{Nanos, SECOND, nanos};
use crate::world::World;

/// How much longer than a lease everything must have been well: the session's first heartbeat has
/// to be confirmed, and keeper to be told.
const MARGIN: Nanos = 4 * SECOND;

#[derive(Debug)]
pub(super) struct HealthyNotKilled;

impl Invariant for HealthyNotKilled {
    fn name(&self) -> &'static str {
        "healthy_not_killed"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Allocations of a silent node: never killed for a lagging server (hole 5)"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match seen {
            Observation::StopAsked { node, run }
                if world.node(*node).keeper.lives(run)
                    && is_newest(world, *node, run)
                    && must_go_on(world, *node, run) =>
            {
                Err(format!("n{node} ends {run}, which is wanted and runs"))
            }
            Observation::Ended {
                node,
                run,
                lease_expired: true,
            } if must_go_on(world, *node, run) => Err(format!(
                "n{node} was heard, {run} is wanted, and keeper ends it with its lease"
            )),
            _ => Ok(()),
        }
    }
}

/// A run that the journal does not know is killed: the newest one goes on or follows.
fn is_newest(world: &World, node: NodeIx, run: &RunKey) -> bool {
    let core = world.node(node).core.as_ref();
    core.and_then(|core| core.alloc(run.alloc))
        .and_then(|alloc| alloc.tasks().get(&run.task))
        .is_some_and(|task| task.run() == *run)
}

/// Whether a run is wanted, and nothing allows its host to end it.
fn must_go_on(world: &World, node: NodeIx, run: &RunKey) -> bool {
    // A run above the newest that a damaged journal knows is killed, whatever else is known.
    if world.node(node).journal.damaged {
        return false;
    }
    let wanted = world.state().alloc(run.alloc).is_some_and(|alloc| {
        alloc.desired_status == DesiredStatus::Run && !alloc.client_terminal()
    });
    let leased = world.kind_of(run.alloc) == Some(Kind::Leased);
    wanted && (!leased || world.is_heard_for(node, nanos(LEASE) + MARGIN))
}
