//! Named commands that operators may run inside a running task.

use serde::{Deserialize, Serialize};

use crate::nullable;
use crate::nullable::or_default;

/// A command that may be run by name inside the running task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Action {
    /// The action's name, unique within its task.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The program.
    #[serde(deserialize_with = "or_default")]
    pub command: String,
    /// Its arguments.
    #[serde(with = "nullable")]
    pub args: Vec<String>,
}
