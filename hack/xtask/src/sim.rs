//! `cargo xtask sim`: the simulator, built for speed, with whatever arguments it understands.
//!
//! It is a program of its own, since nothing of `hack/` depends on another part of it.

use std::path::Path;

use crate::stage::{cargo, run};

/// Builds and runs the simulator; its output and its exit are the answer.
///
/// # Errors
/// If it does not build, or something that must hold did not.
pub(crate) fn simulate(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let mut command = cargo(root);
    command.args([
        "run",
        "--quiet",
        "--release",
        "--locked",
        "-p",
        "hack-sim",
        "--",
    ]);
    run(command.args(arguments))
}
