//! The program that a process driver runs.

use std::path::PathBuf;

use isolation::SandboxSpec;

use super::fields::invalid;
use super::{DriverError, Fields};

/// What every driver of programs needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// The program.
    pub(super) command: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
    /// Where it starts, as the task sees it; the driver's default unless given.
    pub(super) work_dir: Option<PathBuf>,
    /// `/proc/self/oom_score_adj`.
    pub(super) oom_score_adj: i16,
}

impl Program {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, DriverError> {
        let command = fields
            .text("command")?
            .filter(|command| !command.is_empty())
            .ok_or(DriverError::Missing("command"))?;
        let score = fields.number("oom_score_adj")?.unwrap_or(0);
        let oom_score_adj = i16::try_from(score)
            .ok()
            .filter(|score| (0..=1000).contains(score))
            .ok_or_else(|| invalid("oom_score_adj", format!("{score} is not 0 to 1000")))?;
        let work_dir = fields.text("work_dir")?.map(PathBuf::from);
        if let Some(path) = work_dir.as_deref().filter(|path| !path.is_absolute()) {
            return Err(invalid(
                "work_dir",
                format!("{} is not absolute", path.display()),
            ));
        }
        Ok(Self {
            command,
            args: fields.texts("args")?,
            work_dir,
            oom_score_adj,
        })
    }

    /// Puts it into its sandbox.
    pub(super) fn enter(&self, spec: &mut SandboxSpec) {
        spec.args.clone_from(&self.args);
        spec.oom_score_adj = self.oom_score_adj;
        if let Some(directory) = &self.work_dir {
            spec.working_directory.clone_from(directory);
        }
    }
}
