//! Measured promises: suites of figures, each beside what a rival needs and what physics needs.
//!
//! `cargo xtask bench SUITE` prints a table, with `--json` one object a line. Nothing here is a
//! test: a figure is compared with its goal and the answer printed, and the reader judges the
//! machine.

mod args;
mod fleet;
mod floor;
mod row;
mod sessions;
mod start_here;
mod updates;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::stage::target_folder;
pub(crate) use args::Args;
use row::Row;

/// What a suite gets to work with.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The root of the work tree.
    pub(crate) root: PathBuf,
    /// A folder of its own for state, on the disk that holds the build, and removed afterwards: a
    /// temporary folder may be memory, where an fsync costs nothing.
    pub(crate) scratch: PathBuf,
    /// What is measured.
    pub(crate) extent: Extent,
    /// Of what.
    pub(crate) programs: Programs,
    /// How long nodes that are well are watched in bad weather.
    pub(crate) weather: Duration,
    /// The parts that are measured; all of them where none is named.
    pub(crate) parts: Vec<sessions::Part>,
}

/// The programs that are measured.
#[derive(Debug)]
pub(crate) struct Programs {
    /// The folder of ours; `None` = what the release build left.
    pub(crate) ours: Option<PathBuf>,
    /// A `nomad` program to measure beside ours.
    pub(crate) rival: Option<PathBuf>,
}

/// How much of a suite to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The figures and the floors beside them.
    Everything,
    /// Only what the machine itself can do.
    FloorOnly,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Table,
    JsonLines,
}

/// One named set of figures.
struct Suite {
    name: &'static str,
    about: &'static str,
    run: fn(&Bench) -> anyhow::Result<Vec<Row>>,
}

const SUITES: &[Suite] = &[
    Suite {
        name: start_here::NAME,
        about: "submit to running, registrations per second, memory of the daemons",
        run: start_here::run,
    },
    Suite {
        name: sessions::NAME,
        about: "a thousand real sessions: silence, bad weather, storms, servers cut off or killed",
        run: sessions::run,
    },
    Suite {
        name: updates::NAME,
        about: "ten thousand starts at once: what they cost the log; a task's end to its sight",
        run: updates::run,
    },
];

/// Runs a suite and prints its rows.
///
/// # Errors
/// If there is no such suite, or it cannot measure what it promises.
pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let name = args.suite.as_str();
    let Some(suite) = SUITES.iter().find(|suite| suite.name == name) else {
        let known: Vec<String> = SUITES
            .iter()
            .map(|s| format!("{}: {}", s.name, s.about))
            .collect();
        anyhow::bail!(
            "there is no suite `{name}`; there are:\n  {}",
            known.join("\n  ")
        );
    };
    anyhow::ensure!(
        args.only.is_empty() || name == sessions::NAME,
        "--only names parts of `{}`; `{name}` is measured whole",
        sessions::NAME
    );
    let scratch = target_folder(root).join(format!("bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).with_context(|| format!("create {}", scratch.display()))?;
    let bench = Bench {
        root: root.to_owned(),
        scratch: scratch.clone(),
        extent: args.extent(),
        programs: args.programs(),
        weather: args.weather(),
        parts: args.only.clone(),
    };
    let rows = (suite.run)(&bench);
    let removed = std::fs::remove_dir_all(&scratch);
    // Why there is nothing to print comes before what was left lying about.
    let rows = rows?;
    let text = match args.format() {
        Format::Table => row::table(&rows),
        Format::JsonLines => row::json_lines(&rows)?,
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    removed.with_context(|| format!("remove {}", scratch.display()))
}
