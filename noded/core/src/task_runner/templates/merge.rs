//! The one action that follows from templates that changed together.

use std::collections::BTreeSet;

use protocol_model::{ChangeMode, Template};

/// The action of a task whose templates have changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// The files are written, that is all.
    Nothing,
    /// The task is restarted: it reads everything anew, so nothing else is done.
    Restart,
    /// The task goes on.
    Tell {
        /// Scripts to run: offsets of their templates.
        scripts: Vec<usize>,
        /// Signals to send, each once.
        signals: BTreeSet<String>,
    },
}

/// Merges the change modes of templates. A mode that this release does not know is Nomad's default,
/// a restart.
pub(super) fn merge(templates: &[Template], changed: &BTreeSet<usize>) -> Action {
    let (mut scripts, mut signals) = (Vec::new(), BTreeSet::new());
    for offset in changed {
        let Some(template) = templates.get(*offset) else {
            continue;
        };
        match template.change_mode() {
            Ok(ChangeMode::Noop) => {}
            Ok(ChangeMode::Restart) | Err(_) => return Action::Restart,
            Ok(ChangeMode::Signal) => {
                signals.insert(template.change_signal().to_owned());
            }
            Ok(ChangeMode::Script) => scripts.push(*offset),
        }
    }
    if scripts.is_empty() && signals.is_empty() {
        Action::Nothing
    } else {
        Action::Tell { scripts, signals }
    }
}
