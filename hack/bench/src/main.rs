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
mod processors;
mod programs;
mod row;
mod suites;
mod verdict;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{ArgMatches, FromArgMatches as _};
use hack_cluster::Settings;

use args::Args;
use row::Row;
use suites::SUITES;
use verdict::Verdict;

/// What a suite gets to work with.
#[derive(Debug)]
pub(crate) struct Bench {
    /// A folder of its own for state, on the disk that holds the build, and removed afterwards: a
    /// temporary folder may be memory, where an fsync costs nothing.
    pub(crate) scratch: PathBuf,
    /// How much of a suite is measured.
    pub(crate) extent: Extent,
    /// The folder of the programs that are measured.
    pub(crate) programs: PathBuf,
}

impl Bench {
    /// So many servers of the programs that are measured, with their state in the scratch folder.
    pub(crate) fn settings(&self, servers: usize) -> Settings {
        Settings {
            programs: Some(self.programs.clone()),
            state_in: Some(self.scratch.clone()),
            ..Settings::of(servers)
        }
    }

    /// Whether these programs are there, unless only the machine's own floor is asked for.
    ///
    /// # Errors
    /// If something is missing: what, and what to do.
    pub(crate) fn must_have(&self, programs: &[&str]) -> anyhow::Result<()> {
        let folder = &self.programs;
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

/// How much of a suite to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The figures and the floors beside them.
    Everything,
    /// Only what the machine itself can do.
    FloorOnly,
}

fn main() -> ExitCode {
    match run(&args::command().get_matches()) {
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
/// If no suite is named, or it can measure nothing at all.
fn run(matches: &ArgMatches) -> anyhow::Result<bool> {
    let args = Args::from_arg_matches(matches)?;
    let mut out = std::io::stdout().lock();
    if args.list {
        for suite in SUITES {
            writeln!(out, "{}", suite.name)?;
        }
        return Ok(true);
    }
    let (name, own) = matches.subcommand().context("name a suite")?;
    let suite = SUITES.iter().find(|suite| suite.name == name);
    let suite = suite.context("a suite that is in no table")?;
    let program = std::env::current_exe().context("find this program")?;
    // target/PROFILE/hack-bench
    let beside = program.parent().context("this program is in no folder")?;
    let target = beside.parent().context("the folder of programs is /")?;
    let scratch = target.join(format!("bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).with_context(|| format!("create {}", scratch.display()))?;
    let bench = Bench {
        scratch: scratch.clone(),
        extent: match args.floor_only {
            true => Extent::FloorOnly,
            false => Extent::Everything,
        },
        programs: args.binaries.unwrap_or_else(|| beside.to_owned()),
    };
    let mut rows = Vec::new();
    let measured = (suite.run)(&bench, own, &mut rows);
    let removed = std::fs::remove_dir_all(&scratch);
    // Why there is nothing to print comes before what was left lying about.
    let rows = or_what_is_missing(suite.name, rows, measured)?;
    let verdict = Verdict::of(&rows);
    if args.json {
        out.write_all(row::json_lines(&rows)?.as_bytes())?;
        // What reads the lines expects objects only.
        eprint!("{verdict}");
    } else {
        write!(out, "{}{verdict}", row::table(&rows))?;
    }
    removed.with_context(|| format!("remove {}", scratch.display()))?;
    Ok(verdict.is_success())
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
