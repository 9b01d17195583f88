//! When a task runs relative to the main tasks of its group.

use serde::{Deserialize, Serialize};

use crate::choice::{UnknownChoice, closed_choice};
use crate::nullable::or_default;

/// When a task runs relative to the main tasks of its group.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskLifecycle {
    /// `prestart`, `poststart` or `poststop`: see [`LifecycleHook`].
    #[serde(deserialize_with = "or_default")]
    pub hook: String,
    /// Whether the task lives as long as the main tasks.
    #[serde(deserialize_with = "or_default")]
    pub sidecar: bool,
}

closed_choice! {
    /// The moments at which a task that is no main task may start.
    pub enum LifecycleHook("lifecycle hook") {
        /// Before the main tasks.
        Prestart = "prestart",
        /// As soon as all main tasks run.
        Poststart = "poststart",
        /// After the main tasks ended.
        Poststop = "poststop",
    }
}

impl TaskLifecycle {
    /// The moment at which the task starts.
    pub fn hook(&self) -> Result<LifecycleHook, UnknownChoice> {
        self.hook.parse()
    }
}
