//! The command line: options that every suite has, and a command with its own for each suite.

use std::path::PathBuf;

use clap::{Args as _, Command};

use crate::suites::SUITES;

/// What all suites are asked alike.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object a line instead of a table
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Measure only what the machine itself can do
    #[arg(long, global = true)]
    pub(super) floor_only: bool,
    /// The folder of the programs to measure; without it, what the release build left
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) binaries: Option<PathBuf>,
    /// Print the names of the suites, one a line
    #[arg(long)]
    pub(super) list: bool,
}

/// The whole command line.
pub(crate) fn command() -> Command {
    let suites = SUITES.iter().map(|suite| {
        let command = Command::new(suite.name).about(suite.about);
        (suite.options)(command)
    });
    let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
    Args::augment_args(Command::new("bench"))
        .about("Measure a suite of figures beside the machine's own floor")
        .bin_name("cargo xtask bench")
        .override_usage(format!("cargo xtask bench [OPTIONS] {}", names.join("|")))
        .subcommand_help_heading("Suites")
        .disable_help_subcommand(true)
        .arg_required_else_help(true)
        .subcommands(suites)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn the_help_lists_every_suite_and_no_name_is_taken_twice() {
        command().debug_assert();
        let help = command().render_help().to_string();
        for suite in SUITES {
            let line = |line: &&str| line.split_whitespace().next() == Some(suite.name);
            assert_eq!(help.lines().filter(line).count(), 1, "{help}");
            assert!(help.contains(suite.about), "{help}");
        }
        let names: BTreeSet<&str> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(names.len(), SUITES.len());
    }

    #[test]
    fn options_of_all_suites_stand_before_and_behind_its_name() {
        for line in ["bench --json SUITE", "bench SUITE --json"] {
            for suite in SUITES {
                let line = line.replace("SUITE", suite.name);
                let matches = command().try_get_matches_from(line.split(' ')).unwrap();
                assert!(Args::from_arg_matches(&matches).unwrap().json, "{line}");
            }
        }
    }

    #[test]
    fn an_option_of_another_suite_is_refused() {
        let line = |line: &str| command().try_get_matches_from(line.split(' '));
        line("bench sessions --only storm,silence --weather-seconds 9").unwrap();
        line("bench start-here --rival /bin/nomad").unwrap();
        line("bench start-here --only storm").unwrap_err();
        line("bench updates --rival /bin/nomad").unwrap_err();
        let unknown = line("bench nothing").unwrap_err().to_string();
        assert!(SUITES.iter().all(|suite| unknown.contains(suite.name)));
    }
}
