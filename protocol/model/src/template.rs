//! Files that are rendered before a task starts, and again when what they show changes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::canonical::defaults;
use crate::choice::{UnknownChoice, closed_choice};
use crate::duration;
use crate::nullable;

/// A file that is rendered for a task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Template {
    /// The template's file; excludes `embedded_tmpl`.
    pub source_path: Option<String>,
    /// Where the result goes, relative to the task's directory.
    pub dest_path: Option<String>,
    /// The template's text.
    pub embedded_tmpl: Option<String>,
    /// What happens when the result changes; absent becomes `restart`. See [`ChangeMode`].
    pub change_mode: Option<String>,
    /// The program of change mode `script`.
    pub change_script: Option<ChangeScript>,
    /// The signal of change mode `signal`.
    pub change_signal: Option<String>,
    /// The longest random wait before acting on a change; absent becomes 5 s.
    #[serde(with = "duration::ns_option")]
    pub splay: Option<Duration>,
    /// The result's permissions, octal; absent becomes `0644`.
    pub perms: Option<String>,
    /// The result's owner; absent or negative: the node agent's.
    #[serde(rename = "Uid")]
    pub uid: Option<i32>,
    /// The result's group; absent or negative: the node agent's.
    #[serde(rename = "Gid")]
    pub gid: Option<i32>,
    /// What begins an action; absent becomes `{{`.
    pub left_delim: Option<String>,
    /// What ends an action; absent becomes `}}`.
    pub right_delim: Option<String>,
    /// Whether the result is `KEY=value` lines for the task's environment.
    pub envvars: Option<bool>,
    /// Obsolete; kept because clients send it.
    #[serde(with = "duration::ns_option")]
    pub vault_grace: Option<Duration>,
    /// How long changes are collected before rendering.
    pub wait: Option<WaitConfig>,
    /// Whether the template is rendered once and never again.
    pub once: Option<bool>,
    /// Whether a missing key is an error rather than an empty text.
    pub err_missing_key: Option<bool>,
}

closed_choice! {
    /// What happens to a task when something it was given changes.
    pub enum ChangeMode("change mode") {
        /// Nothing.
        Noop = "noop",
        /// It gets a signal.
        Signal = "signal",
        /// It is restarted.
        Restart = "restart",
        /// A program is run inside it.
        Script = "script",
    }
}

impl Template {
    /// What happens when the result changes; `restart` where nothing is said.
    pub fn change_mode(&self) -> Result<ChangeMode, UnknownChoice> {
        self.change_mode
            .as_deref()
            .map_or(Ok(ChangeMode::Restart), str::parse)
    }

    /// The template's text; empty where it comes from a file.
    pub fn embedded_tmpl(&self) -> &str {
        self.embedded_tmpl.as_deref().unwrap_or_default()
    }

    /// The signal of change mode `signal`; `SIGHUP` where nothing is said.
    pub fn change_signal(&self) -> &str {
        let signal = self.change_signal.as_deref();
        signal
            .filter(|signal| !signal.is_empty())
            .unwrap_or("SIGHUP")
    }

    /// The longest random wait before acting on a change.
    pub fn splay(&self) -> Duration {
        self.splay.unwrap_or(defaults::TEMPLATE_SPLAY)
    }

    /// Whether changes after the first rendering count for nothing.
    pub fn is_rendered_once(&self) -> bool {
        self.once.unwrap_or(false)
    }

    /// Where the result goes.
    pub fn dest_path(&self) -> &str {
        self.dest_path.as_deref().unwrap_or_default()
    }

    /// What begins an action.
    pub fn left_delim(&self) -> &str {
        self.left_delim.as_deref().unwrap_or("{{")
    }

    /// Whether the result is lines for the task's environment.
    pub fn envvars(&self) -> bool {
        self.envvars.unwrap_or(false)
    }

    /// The result's permission bits; `None` where the text is not octal.
    pub fn mode_bits(&self) -> Option<u32> {
        let text = self.perms.as_deref().unwrap_or("0644");
        u32::from_str_radix(text, 8)
            .ok()
            .filter(|bits| *bits <= 0o7777)
    }
}

/// A program run inside the task when a template's result changes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ChangeScript {
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    #[serde(with = "nullable")]
    pub args: Vec<String>,
    /// How long it may take; absent becomes 5 s.
    #[serde(with = "duration::ns_option")]
    pub timeout: Option<Duration>,
    /// Whether the task is killed when the program fails.
    pub fail_on_error: Option<bool>,
}

impl ChangeScript {
    /// How long it may take.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(defaults::CHANGE_SCRIPT_TIMEOUT)
    }
}

/// How long changes are collected before a template is rendered.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct WaitConfig {
    /// At least so long after the last change.
    #[serde(with = "duration::ns_option")]
    pub min: Option<Duration>,
    /// At most so long after the first.
    #[serde(with = "duration::ns_option")]
    pub max: Option<Duration>,
}
