//! The forms in which a variable is printed.

use std::io::{IsTerminal as _, stdout};

use clap::ValueEnum;
use protocol_api::variables::Variable;

use crate::failure::Failure;
use crate::render::variable;
use crate::session::Session;

/// See the module. A Go template is refused with the other forms that there are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum OutForm {
    /// A variable specification.
    Hcl,
    /// The answer of the API.
    Json,
    /// Nothing but a line that tells of a change.
    None,
    /// For people.
    Table,
}

impl OutForm {
    /// The form that is asked for; else `on_terminal`, or JSON where stdout is none.
    pub(super) fn or_default(asked: Option<Self>, on_terminal: Self) -> Self {
        let default = match stdout().is_terminal() {
            true => on_terminal,
            false => Self::Json,
        };
        asked.unwrap_or(default)
    }

    /// Prints a variable.
    pub(super) fn print(self, session: &Session, variable: &Variable) -> Result<(), Failure> {
        match self {
            Self::None => Ok(()),
            Self::Json => session.out.json(variable),
            Self::Hcl => session.out.data(&variable::hcl(variable)),
            Self::Table => {
                let text = variable::one(&session.clock(), variable);
                session.out.data(&text)
            }
        }
    }
}
