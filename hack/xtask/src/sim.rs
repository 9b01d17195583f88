//! `cargo xtask sim` and `cargo xtask check-handshake`: the simulator and the model check, built
//! for speed, with whatever arguments they understand.
//!
//! They are programs of their own: what they are made of is not the tools' to depend on.

use std::path::Path;

use crate::stage::{cargo, run};

/// Builds and runs the simulator, or with `cluster` the one of whole servers and nodes; its output
/// and its exit are the answer.
///
/// # Errors
/// If it does not build, or something that must hold did not.
pub(crate) fn simulate(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    match arguments.split_first() {
        Some((first, rest)) if first == "cluster" => run_package(root, "hack-sim-cluster", rest),
        _ => run_package(root, "hack-sim", arguments),
    }
}

/// As [`simulate`], for the model check of the handshake.
///
/// # Errors
/// As there.
pub(crate) fn check_handshake(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    run_package(root, "hack-model-check", arguments)
}

fn run_package(root: &Path, package: &str, arguments: &[String]) -> anyhow::Result<()> {
    let mut command = cargo(root);
    command.args([
        "run",
        "--quiet",
        "--release",
        "--locked",
        "-p",
        package,
        "--",
    ]);
    run(command.args(arguments))
}
