//! `cargo xtask nightly`: what is too long for every change, and says most on an idle machine.
//!
//! The release build and the README's quickstart with it, simulations and the model check for
//! minutes instead of seconds, every planted bug, and every suite of figures.

use std::path::Path;
use std::process::Command;

use crate::sim;
use crate::stage::{Stages, cargo, run};

/// Runs all of it, each part a stage. `minutes` is how long each search lasts.
///
/// # Errors
/// If this program's own path is unknown.
pub(crate) fn nightly(root: &Path, minutes: u32, stages: &mut Stages) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    stages.run("release build", || {
        run(cargo(root).args(["build", "--release", "--workspace", "--bins", "--locked"]))
    });
    stages.run("quickstart", || {
        run(Command::new("hack/quickstart")
            .arg("--once")
            .current_dir(root))
    });
    let span = format!("--minutes={minutes}");
    let own: &[(&str, &[&str])] = &[
        ("simulator", &["sim", &span]),
        ("simulator of whole programs", &["sim", "cluster", &span]),
        ("model check", &["check-handshake", &span]),
        ("bugs planted for the simulator", &["sim", "mutants"]),
        (
            "bugs planted for whole programs",
            &["sim", "cluster", "--mutants"],
        ),
        (
            "bugs planted for the model check",
            &["check-handshake", "mutants"],
        ),
    ];
    for (name, arguments) in own {
        stages.run(name, || {
            run(Command::new(&program).args(*arguments).current_dir(root))
        });
    }
    let suites = sim::suites(root);
    let suites = suites.unwrap_or_else(|error| {
        stages.run("bench", || Err(error));
        Vec::new()
    });
    for name in suites {
        stages.run(&format!("bench {name}"), || sim::bench(root, &[name]));
    }
    Ok(())
}
