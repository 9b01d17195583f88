//! `cargo xtask sim`, `check-handshake` and `bench`: the simulators, the model check and the
//! benchmarks, built for speed, with whatever arguments they understand.
//!
//! They are programs of their own: what they are made of is not the tools' to depend on.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::stage::{cargo, run};

/// Builds and runs the simulator, or with `cluster` the one of whole servers and nodes; its output
/// and its exit are the answer.
///
/// # Errors
/// If it does not build, or something that must hold did not.
pub(crate) fn simulate(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    match arguments.split_first() {
        Some((first, rest)) if first == "cluster" => {
            run_package(root, "hack-sim-cluster", EVERY_DAY, rest)
        }
        _ if runs_long(arguments) => run_package(root, "hack-sim", FOR_LONG_RUNS, arguments),
        _ => run_package(root, "hack-sim", EVERY_DAY, arguments),
    }
}

/// The profile that is built soonest.
const EVERY_DAY: &str = "release";
/// The one whose build takes minutes, which a run has to be long for to be worth it.
const FOR_LONG_RUNS: &str = "sim";

/// Whether a run of the simulator takes so long, or is about its speed.
fn runs_long(arguments: &[String]) -> bool {
    let long = |argument: &String| {
        matches!(argument.as_str(), "mutants" | "speed" | "silence")
            || argument.starts_with("--minutes")
    };
    arguments.iter().any(long)
}

/// As [`simulate`], for the model check of the handshake.
///
/// # Errors
/// As there.
pub(crate) fn check_handshake(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    run_package(root, "hack-model-check", EVERY_DAY, arguments)
}

/// As [`simulate`], for the benchmarks.
///
/// # Errors
/// If it does not build, or a goal was missed.
pub(crate) fn bench(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    run_package(root, "hack-bench", EVERY_DAY, arguments)
}

/// The names of all suites of benchmarks.
///
/// # Errors
/// If the program does not build.
pub(crate) fn suites(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut program = package(root, "hack-bench", EVERY_DAY);
    let listed = program.arg("--list").stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(listed.status.success(), "hack-bench: {}", listed.status);
    let names = String::from_utf8(listed.stdout)?;
    Ok(names.lines().map(str::to_owned).collect())
}

fn run_package(
    root: &Path,
    package_name: &str,
    profile: &str,
    arguments: &[String],
) -> anyhow::Result<()> {
    run(package(root, package_name, profile).args(arguments))
}

fn package(root: &Path, name: &str, profile: &str) -> Command {
    let mut command = cargo(root);
    let options = ["--quiet", "--locked", "--profile", profile, "-p", name];
    command.arg("run").args(options).arg("--");
    // Run after run takes what the one before has freed: the kernel need not have it, and clear it,
    // in between. (mimalloc's; 5 % of the simulator.)
    command.env("MIMALLOC_PURGE_DELAY", "-1");
    command
}
