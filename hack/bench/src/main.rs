//! Measured promises: suites of figures, each beside what a rival needs and what physics needs.
//!
//! `cargo xtask bench SUITE` prints a table, with `--json` one object a line, and in the end how
//! many goals are met; it fails where one is missed, or a figure that was promised is not there.
//! Nothing here is a test, which would depend on what else a machine does: no layer of tests runs
//! it, and the reader judges the machine.

mod args;
mod fleet;
mod floor;
mod http;
mod row;
mod suites;
mod verdict;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use hack_cluster::Settings;

use args::Args;
use row::Row;
use suites::{sessions, start_here, updates};
use verdict::Verdict;

/// What a suite gets to work with.
#[derive(Debug)]
pub(crate) struct Bench {
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

impl Bench {
    /// So many servers of the programs that are measured, with their state in the scratch folder.
    pub(crate) fn settings(&self, servers: usize) -> Settings {
        Settings {
            programs: Some(self.programs.ours.clone()),
            state_in: Some(self.scratch.clone()),
            ..Settings::of(servers)
        }
    }

    /// Whether these programs are there, unless only the machine's own floor is asked for.
    ///
    /// # Errors
    /// If something is missing: what, and what to do.
    pub(crate) fn must_have(&self, programs: &[&str]) -> anyhow::Result<()> {
        let folder = &self.programs.ours;
        let is_missing = |name: &&str| !folder.join(name).is_file();
        let missing: Vec<&str> = programs.iter().copied().filter(is_missing).collect();
        ensure!(
            missing.is_empty() || self.extent == Extent::FloorOnly,
            "the figures need {} in {}; build them with `cargo build --release --bins`, name another \
             folder with --binaries, or ask for the machine's own figures with --floor-only",
            missing.join(", "),
            folder.display()
        );
        Ok(())
    }
}

/// The programs that are measured.
#[derive(Debug)]
pub(crate) struct Programs {
    /// The folder of ours.
    pub(crate) ours: PathBuf,
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
    /// Adds what it measures, row by row: what was measured before something failed is not lost.
    run: fn(&Bench, &mut Vec<Row>) -> anyhow::Result<()>,
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

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a suite, prints its rows and judges them; answers whether all goals are met.
///
/// # Errors
/// If there is no such suite, or it can measure nothing at all.
fn run(args: &Args) -> anyhow::Result<bool> {
    let suite = chosen(args)?;
    let own = std::env::current_exe().context("find this program")?;
    // target/PROFILE/hack-bench
    let beside = own.parent().context("this program is in no folder")?;
    let target = beside.parent().context("the folder of programs is /")?;
    let scratch = target.join(format!("bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).with_context(|| format!("create {}", scratch.display()))?;
    let bench = Bench {
        scratch: scratch.clone(),
        extent: args.extent(),
        programs: args.programs(beside),
        weather: args.weather(),
        parts: args.only.clone(),
    };
    let mut rows = Vec::new();
    let measured = (suite.run)(&bench, &mut rows);
    let removed = std::fs::remove_dir_all(&scratch);
    // Why there is nothing to print comes before what was left lying about.
    let rows = or_what_is_missing(suite.name, rows, measured)?;
    let verdict = Verdict::of(&rows);
    let mut out = std::io::stdout().lock();
    match args.format() {
        Format::Table => write!(out, "{}{verdict}", row::table(&rows))?,
        Format::JsonLines => {
            out.write_all(row::json_lines(&rows)?.as_bytes())?;
            // What reads the lines expects objects only.
            eprint!("{verdict}");
        }
    }
    removed.with_context(|| format!("remove {}", scratch.display()))?;
    Ok(verdict.is_success())
}

fn chosen(args: &Args) -> anyhow::Result<&'static Suite> {
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
    Ok(suite)
}

/// The rows of a suite; where it failed half way, those so far, and one for all that is missing.
///
/// # Errors
/// Its own, if there are none.
fn or_what_is_missing(
    suite: &'static str,
    mut rows: Vec<Row>,
    measured: anyhow::Result<()>,
) -> anyhow::Result<Vec<Row>> {
    match measured {
        Err(error) if rows.is_empty() => return Err(error),
        Err(error) => {
            let why = format!("{error:#}").replace('\n', " | ");
            rows.push(Row::not_measured(suite, "all that comes after these", why));
        }
        Ok(()) => {}
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_fails_half_way_shows_what_it_has_and_is_not_a_success() {
        let rows = || vec![Row::new("s", "f", 1.0, "ms").at_most(2.0)];
        let failed = || Err(anyhow::anyhow!("one\ntwo").context("measure"));
        let whole = or_what_is_missing("s", rows(), Ok(())).unwrap();
        assert!(Verdict::of(&whole).is_success());
        let half = or_what_is_missing("s", rows(), failed()).unwrap();
        assert_eq!(half.len(), 2);
        let why = half[1].not_measured.as_deref();
        assert_eq!(why, Some("measure: one | two"));
        assert!(!Verdict::of(&half).is_success());
        or_what_is_missing("s", Vec::new(), failed()).unwrap_err();
    }
}
