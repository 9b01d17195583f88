//! A real host for tests: a Debian guest under systemd with all of cgroup v2, emulated by qemu.
//!
//! ```text
//! hack/vm/image  -> image.rs   -> target/vm/image-HASH/  kernel, initial file system, root disk
//! programs, units, hack/vm/guest
//!                -> load.rs    -> target/vm/load.img     what is to be tried, a second disk
//! both           -> machine.rs -> qemu, one process, killed when dropped or over time
//! its report     -> report.rs  -> lines for a person, a tally for the layers
//! ```
//!
//! Emulation without hardware help runs everywhere, ten to twenty times slower than a host: so the
//! tests assert nothing about speed. The guest has no network card, so nothing can leave it, and
//! what it writes to its disk goes to an unnamed temporary file.

mod image;
mod load;
mod machine;
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::stage::{Outcome, cargo, run, target_folder};
use machine::{Machine, Purpose};
use report::{Event, Progress};

pub(crate) use report::{Failure, Tally};

/// Three boots and all tests take about eight minutes on two cores that do nothing else, and twenty
/// on two that run the other tests.
const TESTS_TIME_MAX: Duration = Duration::from_secs(40 * 60);
/// Packages and the programs that they build.
const PROGRAMS: &[(&str, &str)] = &[
    ("controlplane-server", "controlplane"),
    ("controlplane-cli", "drover"),
    ("noded-daemon", "noded"),
    ("noded-jail", "noded-jail"),
    ("noded-keeper", "noded-keeper"),
];
const NEEDED: &[&str] = &["qemu-system-x86_64", "mmdebstrap", "mke2fs", "strip"];

/// The share of the processors that the guest gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Like any other program.
    Normal,
    /// What tests beside it leave over: they measure time, and the guest's tests do not.
    BehindTests,
}

/// What to do with the guest.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// A folder with the five programs; built (without optimization) when there is none.
    pub(crate) binaries: Option<PathBuf>,
    /// Only tests whose name contains this.
    pub(crate) only: Option<String>,
    pub(crate) priority: Priority,
}

/// Boots the guest and runs its tests.
///
/// # Errors
/// If the guest cannot be built or started, or does not come to its end in time.
pub(crate) fn run_tests(root: &Path, options: &Options) -> anyhow::Result<Tally> {
    let machine = start(root, options, Purpose::Tests)?;
    let mut progress = Progress::new();
    while !progress.is_over() {
        let line = machine.next_line()?;
        if let Some(said) = progress.on_event(Event::parse(&line)) {
            eprintln!("{said}");
        }
    }
    machine.wait_for_end()?;
    Ok(progress.into_tally())
}

/// Boots the guest and hands its first serial line to whoever called.
///
/// # Errors
/// If the guest cannot be built or started.
pub(crate) fn run_shell(root: &Path, options: &Options) -> anyhow::Result<()> {
    eprintln!(
        "a root shell follows; /opt/drover/guest/install installs Drover, `systemctl poweroff` \
         ends the guest, Ctrl-A x kills it"
    );
    start(root, options, Purpose::Shell)?.wait_for_end()
}

/// Runs the tests as a command of their own.
///
/// # Errors
/// As [`run_tests`].
pub(crate) fn run_as_command(root: &Path, options: &Options) -> anyhow::Result<Outcome> {
    let tally = run_tests(root, options)?;
    ensure!(
        tally.passed + tally.failed.len() > 0,
        "the guest ran no test"
    );
    eprintln!("{} passed, {} failed", tally.passed, tally.failed.len());
    Ok(if tally.failed.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed
    })
}

/// What this host lacks; `None` where the guest can be run.
pub(crate) fn what_is_missing() -> Option<String> {
    if std::env::consts::ARCH != "x86_64" {
        return Some("an x86_64 host: the guest's packages and programs are for that".to_owned());
    }
    let missing: Vec<&str> = NEEDED
        .iter()
        .copied()
        .filter(|program| !is_in_path(program))
        .collect();
    (!missing.is_empty()).then(|| format!("{} (hack/prerequisites vm)", missing.join(", ")))
}

/// Builds the guest where it is not there yet: the one step that needs a Debian mirror.
///
/// # Errors
/// If its packages cannot be had.
pub(crate) fn prepare(root: &Path) -> anyhow::Result<()> {
    image::find_or_build(root, &folder(root)?).map(drop)
}

fn folder(root: &Path) -> anyhow::Result<PathBuf> {
    let folder = target_folder(root).join("vm");
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder)
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

fn start(root: &Path, options: &Options, purpose: Purpose) -> anyhow::Result<Machine> {
    if let Some(missing) = what_is_missing() {
        anyhow::bail!("the guest needs {missing}");
    }
    let folder = folder(root)?;
    let binaries = match &options.binaries {
        Some(folder) => folder.clone(),
        None => build(root)?,
    };
    let image = image::find_or_build(root, &folder)?;
    let load = load::build(
        root,
        &folder,
        &binaries,
        PROGRAMS.iter().map(|(_, name)| *name),
    )?;
    Machine::start(&folder, &image, &load, purpose, options)
}

fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let mut command = cargo(root);
    command.args(["build", "--locked", "--bins"]);
    for (package, _) in PROGRAMS {
        command.args(["--package", package]);
    }
    run(&mut command)?;
    Ok(target_folder(root).join("debug"))
}

/// Runs a program whose output nobody wants unless it fails.
fn run_quietly(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .output()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    ensure!(
        output.status.success(),
        "{}: {}\n{}",
        command.get_program().display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
