//! A session ends of silence only after a whole detection period of its own: an expiry that was
//! decided for an earlier session, or before it, ends none.

use std::collections::BTreeMap;

use controlplane_state::{Command, Outcome, WelcomeKind};
use protocol_model::NodeId;

use super::{Invariant, Observation};
use crate::node_ids::node_ix;
use crate::time::{MILLI, Nanos};
use crate::world::World;

/// The product's detection period.
const SILENCE: Nanos = 2_600 * MILLI;

/// When each node's session was made.
#[derive(Debug, Default)]
pub(super) struct NoHastyExpiry {
    made: BTreeMap<NodeId, Nanos>,
}

impl Invariant for NoHastyExpiry {
    fn name(&self) -> &'static str {
        "no_hasty_expiry"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, States: HeartbeatMissed carries the epoch it was decided for (hole 4)"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Applied {
            command, applied, ..
        } = seen
        else {
            return Ok(());
        };
        match (command, &applied.outcome) {
            (Command::NodeHello(hello), Outcome::Welcome(welcome))
                if welcome.kind == WelcomeKind::New =>
            {
                self.made.insert(hello.node, world.now);
                Ok(())
            }
            (Command::HeartbeatMissed { .. }, Outcome::Missed(results)) => {
                let ended = results.iter().filter(|it| it.status.is_some());
                for result in ended {
                    let made = self.made.get(&result.node).copied().unwrap_or(0);
                    let lived = world.now.saturating_sub(made);
                    if lived < SILENCE {
                        return Err(format!(
                            "n{}: its session is {} ms old",
                            node_ix(result.node),
                            lived / MILLI
                        ));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
