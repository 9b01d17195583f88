//! The life of root keys while a server leads: the server's `keyring/rotation`. Which steps are due
//! is the product's; how values are sealed is imitated.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use controlplane_leader::keys::{KeyStep, next_look, next_resign, steps};
use controlplane_state::command::{RootKeyUpsert, Rotation, VariablesRekey};
use controlplane_state::{Command, Variable};
use protocol_model::UnixNanos;

use super::change::Then;
use super::leading::Reign;
use crate::event::{Answer, ServerEvent, ServerIx};
use crate::mutant::Mutant;
use crate::time::{MILLI, Nanos, nanos, wall};
use crate::world::World;

/// Values in one entry; few, so that a rekey has several.
const VALUES_MAX: usize = 2;
/// Allocations in one entry; few, for the same reason.
const ALLOCS_MAX: usize = 2;
/// The log is for others, too (as the server).
const REST: Nanos = 20 * MILLI;
/// The pause while there is nothing to do. Root keys that change wake the server's; here it looks.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The rest of one look at the keys.
#[derive(Debug, Default)]
pub(super) struct KeysInHand {
    waiting: VecDeque<Work>,
}

#[derive(Debug)]
enum Work {
    Step(KeyStep),
    /// Values of the key that they had when the look began.
    Rekey(Vec<Arc<Variable>>),
}

impl World {
    /// A server leads: it looks after the keys, where the run has any.
    pub(super) fn begin_keys(&mut self, ix: ServerIx, reign: Reign) {
        if self.schedule.keys.is_some() {
            self.server_event(ix, MILLI, ServerEvent::KeysDue { reign });
        }
    }

    pub(super) fn on_keys_due(&mut self, ix: ServerIx, reign: Reign) {
        let Some(config) = self.schedule.keys else {
            return;
        };
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        let now = wall(self.now, self.servers[usize::from(ix)].skew);
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != reign {
            return;
        }
        let Some(work) = running.keys.waiting.pop_front() else {
            let due = match snapshot.active_root_key() {
                Some(_) => steps(&snapshot, config, None, now),
                None => Vec::new(),
            };
            running.keys.waiting = due.into_iter().map(Work::Step).collect();
            if snapshot.active_root_key().is_none() {
                let command = self.new_key(None, Rotation::Plain, ix);
                return self.change(ix, command, Then::Keys { reign });
            }
            self.forget_uses(ix);
            let idle = self
                .running(ix)
                .is_some_and(|(_, it)| it.keys.waiting.is_empty());
            let pause = match idle {
                true => nanos(next_look(&snapshot, config, now).min(PAUSE_MAX)),
                false => MILLI,
            };
            return self.server_event(ix, pause, ServerEvent::KeysDue { reign });
        };
        match self.key_command(ix, work) {
            Some(command) => self.change(ix, command, Then::Keys { reign }),
            None => self.server_event(ix, MILLI, ServerEvent::KeysDue { reign }),
        }
    }

    /// A step that was refused or got lost is decided anew with the next look, and so are those
    /// behind it.
    pub(super) fn on_keys_done(&mut self, ix: ServerIx, reign: Reign, answer: &Answer) {
        let Some((own, running)) = self.running(ix) else {
            return;
        };
        if own != reign {
            return;
        }
        if !matches!(answer, Answer::Done { .. }) {
            running.keys.waiting.clear();
        }
        self.server_event(ix, REST, ServerEvent::KeysDue { reign });
    }

    fn key_command(&mut self, ix: ServerIx, work: Work) -> Option<Command> {
        let snapshot = self.servers[usize::from(ix)].snapshot.clone();
        let step = match work {
            Work::Step(step) => step,
            Work::Rekey(mut values) => {
                let later = values.split_off(values.len().min(VALUES_MAX));
                if !later.is_empty() {
                    self.in_front(ix, Work::Rekey(later));
                }
                let variables = values.iter().filter_map(|row| self.resealed(ix, row));
                let variables = variables.collect();
                return Some(VariablesRekey { variables }.into());
            }
        };
        match step {
            KeyStep::Make { publish_time, .. } => {
                Some(self.new_key(publish_time, Rotation::Plain, ix))
            }
            KeyStep::Change(change) => Some(change.into()),
            KeyStep::RekeyVariables { number } => {
                let values = snapshot.variables_of_root_key(number).cloned().collect();
                self.in_front(ix, Work::Rekey(values));
                None
            }
            KeyStep::Resign { number } => {
                let mut resign = next_resign(&snapshot)?;
                let ends = self.mutant == Some(Mutant::ResignedOnce);
                if ends && !self.resigned.insert(number) {
                    return None;
                }
                if resign.allocs.len() > ALLOCS_MAX && !ends {
                    self.in_front(ix, Work::Step(KeyStep::Resign { number }));
                }
                resign.allocs.truncate(ALLOCS_MAX);
                Some(resign.into())
            }
            // No secrets of tokens and no key-encryption keys here.
            KeyStep::RekeyTokens { .. } | KeyStep::Rewrap { .. } => None,
        }
    }

    fn in_front(&mut self, ix: ServerIx, work: Work) {
        if let Some((_, running)) = self.running(ix) {
            running.keys.waiting.push_front(work);
        }
    }

    /// A planted bug collects what the machine keeps.
    fn forget_uses(&mut self, ix: ServerIx) {
        let collected = self.uses_forgotten(&self.servers[usize::from(ix)].snapshot);
        let steps = collected.map(|change| Work::Step(KeyStep::Change(change)));
        let steps: Vec<Work> = steps.collect();
        if let Some((_, running)) = self.running(ix) {
            running.keys.waiting.extend(steps);
        }
    }

    /// A new key as a server makes it that knows the log up to where this one does.
    pub(crate) fn new_key(
        &mut self,
        publish_time: Option<UnixNanos>,
        rotation: Rotation,
        ix: ServerIx,
    ) -> Command {
        let active = self.servers[usize::from(ix)].snapshot.active_root_key();
        let replaces = active.map(|key| key.number);
        let key = self.made_key(publish_time);
        RootKeyUpsert {
            key,
            replaces,
            rotation,
        }
        .into()
    }
}
