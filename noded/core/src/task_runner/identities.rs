//! The identities that a task shows: kept fresh while it runs, and the effect of a renewal.
//!
//! ```text
//!   started, restored, another root key --> FollowIdentities
//!   IdentitiesRenewed { names } --> restart | signals | nothing, as the identities say
//! ```
//!
//! The file has the new token before the task is told. An environment changes with a restart only.

use std::collections::{BTreeMap, BTreeSet};

use protocol_model::{ChangeMode, Task, WorkloadIdentity};

use super::{Phase, RunContext, TaskRunner, history};
use crate::effect::{Effect, PrepareTask, TaskHook};
use crate::env::TaskWorld;
use crate::event::RunEvent;
use crate::identities::{name_of, shown_identities};
use crate::outbox::Outbox;
use crate::time::Now;

/// The effect of identities that were renewed together.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Change {
    Nothing,
    /// The task is restarted: it reads everything anew. The identity that asks for it.
    Restart(String),
    /// Signals, each once, with the identity that asks for it.
    Signals(Vec<(String, String)>),
}

impl TaskRunner {
    /// The run is alive: the identities that it shows are kept fresh from now on.
    pub(crate) fn follow_identities(&mut self, ctx: RunContext<'_>, out: &mut Outbox) {
        let shows = |task: &&Task| shown_identities(task).next().is_some();
        let Some(task) = self.task_of(ctx).filter(shows) else {
            return;
        };
        let world = TaskWorld::new(ctx, task);
        out.push(Effect::FollowIdentities(Box::new(PrepareTask {
            run: self.run(),
            spec: ctx.spec.clone(),
            user: world.resolve(&task.user),
            hooks: vec![TaskHook::Identity],
            templates: Vec::new(),
            artifacts: Vec::new(),
            identities: world.identities(),
            dispatch_payload_file: None,
            environment: BTreeMap::new(),
        })));
    }

    /// Takes an event of identities in; returns every other one.
    pub(super) fn take_identity_event(
        &mut self,
        event: RunEvent,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) -> Option<RunEvent> {
        let RunEvent::IdentitiesRenewed { names } = event else {
            return Some(event);
        };
        let task = self.task_of(ctx)?;
        if self.phase != Phase::Running {
            return None;
        }
        match change(task, &names) {
            Change::Nothing => {}
            Change::Restart(name) => {
                // It runs, so nothing refuses this.
                let _ = self.restart(&history::identity_renewed(&name), ctx, out, now);
            }
            Change::Signals(signals) => {
                for (signal, name) in signals {
                    self.note(history::identity_signal(&signal, &name, now.wall));
                    let run = self.run();
                    out.push(Effect::SignalTask { run, signal });
                }
                self.persist(out);
            }
        }
        None
    }
}

/// Merges the change modes of identities. A mode that this release does not know is Nomad's
/// default, nothing.
fn change(task: &Task, names: &BTreeSet<String>) -> Change {
    let mut signals: Vec<(String, String)> = Vec::new();
    let renewed = |identity: &&WorkloadIdentity| names.contains(name_of(identity));
    for identity in shown_identities(task).filter(renewed) {
        let name = name_of(identity).to_owned();
        match identity.change_mode.parse() {
            Ok(ChangeMode::Restart) => return Change::Restart(name),
            Ok(ChangeMode::Signal) => {
                let signal = identity.change_signal.clone();
                if !signals.iter().any(|(earlier, _)| *earlier == signal) {
                    signals.push((signal, name));
                }
            }
            Ok(ChangeMode::Noop | ChangeMode::Script) | Err(_) => {}
        }
    }
    if signals.is_empty() {
        Change::Nothing
    } else {
        Change::Signals(signals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(modes: &[(&str, &str, &str)]) -> Task {
        let identities = modes
            .iter()
            .map(|(name, mode, signal)| WorkloadIdentity {
                name: (*name).to_owned(),
                change_mode: (*mode).to_owned(),
                change_signal: (*signal).to_owned(),
                file: true,
                ..WorkloadIdentity::default()
            })
            .collect();
        Task {
            identities,
            ..Task::default()
        }
    }

    fn of(modes: &[(&str, &str, &str)], names: &[&str]) -> Change {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        change(&task(modes), &names)
    }

    #[test]
    fn a_renewal_has_the_effect_of_its_change_mode() {
        let modes = [
            ("a", "signal", "SIGHUP"),
            ("b", "signal", "SIGHUP"),
            ("c", "noop", ""),
            ("d", "", ""),
            ("e", "restart", ""),
        ];
        assert_eq!(of(&modes, &["c", "d", "unknown"]), Change::Nothing);
        let once = vec![("SIGHUP".to_owned(), "a".to_owned())];
        assert_eq!(of(&modes, &["a", "b", "c"]), Change::Signals(once));
        let restart = Change::Restart("e".to_owned());
        assert_eq!(of(&modes, &["a", "e"]), restart);
    }
}
