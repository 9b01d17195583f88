//! Running other programs: cargo with a clean environment, and named stages with their time.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Variables that `cargo run` sets for its child. Handed on to a second cargo they would look like
/// changed inputs to build scripts, and rebuild what is already built.
const CARGO_RUN_PREFIXES: &[&str] = &[
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
];
const CARGO_RUN_NAMES: &[&str] = &["OUT_DIR", "LD_LIBRARY_PATH", "CARGO_PRIMARY_PACKAGE"];

/// The cargo that started this tool, in `root`, without the variables that were meant for us.
pub(crate) fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root);
    for (name, _) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let ours = CARGO_RUN_PREFIXES
            .iter()
            .any(|prefix| text.starts_with(prefix))
            || CARGO_RUN_NAMES.contains(&text);
        if ours {
            command.env_remove(text);
        }
    }
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// How one stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
}

/// The stages that ran so far. A failed stage does not stop the next: a person who waited for one
/// answer wants all of them.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    done: Vec<(String, Outcome, Duration)>,
}

impl Stages {
    /// Runs one stage and prints its name before and its time after.
    pub(crate) fn run(&mut self, name: &str, stage: impl FnOnce() -> anyhow::Result<()>) {
        eprintln!("== {name}");
        let start = Instant::now();
        let outcome = match stage() {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                eprintln!("error: {error:#}");
                Outcome::Failed
            }
        };
        let elapsed = start.elapsed();
        eprintln!(
            "== {name}: {} in {:.1} s",
            word(outcome),
            elapsed.as_secs_f64()
        );
        self.done.push((name.to_owned(), outcome, elapsed));
    }

    /// Prints the table of stages and says whether all passed.
    pub(crate) fn finish(&self) -> Outcome {
        eprintln!("stage                          outcome    seconds");
        for (name, outcome, elapsed) in &self.done {
            eprintln!(
                "{name:<30} {:<10} {:>7.1}",
                word(*outcome),
                elapsed.as_secs_f64()
            );
        }
        let failed = self
            .done
            .iter()
            .any(|(_, outcome, _)| *outcome == Outcome::Failed);
        if failed {
            Outcome::Failed
        } else {
            Outcome::Passed
        }
    }
}

const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "FAILED",
    }
}

/// Runs a program to its end with our own output, and turns a bad exit into an error.
///
/// # Errors
/// If it cannot be started or exits other than 0.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = describe(command);
    let status = command
        .status()
        .map_err(|error| anyhow::anyhow!("start `{line}`: {error}"))?;
    anyhow::ensure!(status.success(), "`{line}`: {status}");
    Ok(())
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_stage_fails_the_whole_and_the_next_still_runs() {
        let mut stages = Stages::default();
        let mut ran = false;
        stages.run("first", || anyhow::bail!("no"));
        stages.run("second", || {
            ran = true;
            Ok(())
        });
        assert!(ran);
        assert_eq!(stages.finish(), Outcome::Failed);
    }

    #[test]
    fn a_bad_exit_names_the_command() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert!(error.to_string().contains("sh -c exit 3"), "{error}");
    }
}
