//! The project's own commands, run as `cargo xtask COMMAND`.
//!
//! - `tidy` holds the tree against the style guide and the architecture.
//! - `verify` changes nothing: format, lints, tidy, dependencies. `fix` writes what can be mended.
//! - `check CRATE..` is `verify` and the tests for some crates: the loop of somebody at work.
//! - `test` runs every test layer and accounts for those that this host cannot run.
//! - `ci` is what a change must pass: `verify`, then `hack/test`; it prints each stage's time.
//! - `nightly` is what takes longer: the release build, the quickstart, long searches, figures.
//! - `vm` runs the tests of a real host in an emulated one, or gives a person a shell there.
//! - `sim` simulates whole clusters from a seed; a failure says how to see it again.
//! - `check-handshake` looks at every order of events of a node's handshake, to a depth.
//! - `bench SUITE` measures promises, prints the physical floor beside them, and fails where one is
//!   not kept.
//!
//! Input is the tree as git sees it and cargo's metadata; output goes to stdout where it is data
//! (a table, JSON lines) and to stderr where it is talk. The exit code is 0 or 1.

mod check;
mod finding;
mod layers;
mod metadata;
mod nightly;
mod policy;
mod repo;
mod sim;
mod source;
mod stage;
mod tidy;
mod vm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::finding::Finding;
use crate::layers::Strictness;
use crate::repo::Repo;
use crate::stage::{Outcome, Stages, cargo, run};

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Clone, Subcommand)]
enum Verb {
    /// Hold the tree against the style guide and the architecture
    Tidy,
    /// Check format, lints, tidy and dependencies; writes nothing
    Verify,
    /// Check what a change to these crates needs: format, tidy, tests; lints of dependents too
    Check {
        /// Names or folders of crates
        #[arg(required = true, value_name = "CRATE")]
        crates: Vec<String>,
    },
    /// Rewrite what can be mended: machine-applicable lints, long comments, format
    Fix,
    /// Break the comments that are too long, in these files or folders only
    Wrap {
        /// Paths relative to the root; all of the tree if there is none
        paths: Vec<String>,
    },
    /// Everything that a change must pass: verify, then all test layers
    Ci,
    /// Run all test layers and say what was skipped and why (`hack/test` installs what they need)
    Test,
    /// Run what is too long for every change: release build, quickstart, long searches, all figures
    Nightly {
        /// How long each of the three searches lasts
        #[arg(long, default_value_t = 20)]
        minutes: u32,
    },
    /// Run the tests of a real host: a Debian guest under systemd with all of cgroup v2
    Vm {
        /// Give me a root shell in the guest instead
        #[arg(long)]
        shell: bool,
        /// A folder with the four programs; they are built without optimization if there is none
        #[arg(long, value_name = "DIR")]
        binaries: Option<PathBuf>,
        /// Only tests whose name contains this, and what they build on
        #[arg(long, value_name = "WORDS")]
        only: Option<String>,
    },
    /// Simulate whole clusters, one seed after another; `sim --help` says what else it can do
    #[command(disable_help_flag = true)]
    Sim {
        /// For the simulator
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Look at every order of events of a node's handshake; `check-handshake --help` says how deep
    #[command(disable_help_flag = true)]
    CheckHandshake {
        /// For the model check
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure a suite of figures beside the machine's own floor; `bench --help` names the suites
    #[command(disable_help_flag = true)]
    Bench {
        /// For the benchmarks
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    match dispatch(&Arguments::parse().command) {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(verb: &Verb) -> anyhow::Result<Outcome> {
    let root = Repo::find_root()?;
    let mut stages = Stages::default();
    match verb {
        Verb::Test => return layers::run(&root, Strictness::from_environment()),
        Verb::Vm {
            shell,
            binaries,
            only,
        } => {
            let options = vm::Options {
                binaries: binaries.clone(),
                only: only.clone(),
                priority: vm::Priority::Normal,
            };
            if *shell {
                vm::run_shell(&root, &options)?;
                return Ok(Outcome::Passed);
            }
            return vm::run_as_command(&root, &options);
        }
        Verb::Sim { arguments } => {
            sim::simulate(&root, arguments)?;
            return Ok(Outcome::Passed);
        }
        Verb::CheckHandshake { arguments } => {
            sim::check_handshake(&root, arguments)?;
            return Ok(Outcome::Passed);
        }
        Verb::Bench { arguments } => {
            sim::bench(&root, arguments)?;
            return Ok(Outcome::Passed);
        }
        Verb::Wrap { paths } => stages.run("comments", || wrap(&root, paths)),
        Verb::Tidy => stages.run("tidy", || tidy(&root)),
        Verb::Check { crates } => check::check(&root, crates, &mut stages)?,
        Verb::Nightly { minutes } => nightly::nightly(&root, *minutes, &mut stages)?,
        Verb::Verify => verify(&root, &mut stages),
        Verb::Fix => fix(&root, &mut stages),
        Verb::Ci => {
            verify(&root, &mut stages);
            stages.run("tests", || {
                run(std::process::Command::new("hack/test").current_dir(&root))
            });
        }
    }
    Ok(stages.finish())
}

/// The cheap checks first: who waits for lints should not wait for a misplaced brace.
fn verify(root: &Path, stages: &mut Stages) {
    stages.run("format", || {
        run(cargo(root).args(["fmt", "--all", "--check"]))
    });
    stages.run("tidy", || tidy(root));
    stages.run("dependencies", || report(&policy::check(root)?));
    stages.run("lints", || {
        let clippy = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ];
        run(cargo(root).args(clippy))
    });
}

fn fix(root: &Path, stages: &mut Stages) {
    stages.run("lints", || {
        let clippy = [
            "clippy",
            "--fix",
            "--workspace",
            "--all-targets",
            "--allow-dirty",
        ];
        run(cargo(root).args(clippy).arg("--allow-staged"))
    });
    stages.run("comments", || wrap(root, &[]));
    stages.run("format", || run(cargo(root).args(["fmt", "--all"])));
}

/// Breaks long comments in the files that begin with one of `paths`, or in all of them.
fn wrap(root: &Path, paths: &[String]) -> anyhow::Result<()> {
    let repo = Repo::read(root)?;
    let meant = |path: &str| paths.is_empty() || paths.iter().any(|p| path.starts_with(p.as_str()));
    for (path, text) in repo
        .texts()
        .filter(|(path, _)| path.ends_with(".rs") && meant(path))
    {
        if let Some(wrapped) = tidy::wrap_comments(text) {
            std::fs::write(root.join(path), wrapped)?;
            eprintln!("{path}: comments wrapped");
        }
    }
    Ok(())
}

fn tidy(root: &Path) -> anyhow::Result<()> {
    let tidy::Report { findings, notes } = tidy::check(root)?;
    for note in notes {
        eprintln!("note: {note}");
    }
    report(&findings)
}

fn report(findings: &[Finding]) -> anyhow::Result<()> {
    let mut said = None;
    for finding in findings {
        eprintln!("{}", finding.headline());
        // Neighbours in the list that share a rule share its reason too; it is said once.
        let advice = finding.advice();
        if said.as_ref() != Some(&advice) {
            eprintln!("{advice}");
            said = Some(advice);
        }
    }
    anyhow::ensure!(findings.is_empty(), "{} findings", findings.len());
    Ok(())
}
