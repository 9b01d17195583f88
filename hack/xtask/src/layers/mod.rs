//! Every test layer that this host can run, and an honest account of those that it cannot.
//!
//! ```text
//! build    one cargo command for programs, tests and examples; the guest's disk meanwhile
//! tests    three lanes of executables side by side (plan.rs); the guest once the lane of clusters
//!          is done, since both need the processors in time
//! tour     hack/quickstart alone, since its ports are fixed
//! account  times, a table of the layers, what was skipped and why, one closing line
//! ```
//!
//! A layer without a single test is a failure wherever it happens: somebody deleted it, or a
//! feature switched it off. A layer whose tests were all skipped is a failure where CI=true, since
//! CI has what they need; elsewhere it is a warning.

mod build;
mod log;
mod plan;
mod report;
mod run;
mod slow;
mod summary;
mod times;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::stage::{Outcome, Stages, target_folder};
use crate::vm::{self, Failure};
use build::Executable;
use log::Tally;
use plan::LayerName;
use run::{Output, Ran};
use slow::SlowTests;
use summary::Summary;

/// Longer than the whole suite takes on two cores, shorter than what CI grants.
const TESTS_TIME_MAX: Duration = Duration::from_secs(45 * 60);
const QUICKSTART_SECONDS_MAX: u32 = 10 * 60;

/// Whether a layer that was skipped as a whole is a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// A developer's machine: say it.
    Report,
    /// CI: the machine has what the tests need, so it is a failure.
    Fail,
}

impl Strictness {
    /// CI says so in its environment.
    pub(crate) fn from_environment() -> Self {
        let in_ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
        if in_ci { Self::Fail } else { Self::Report }
    }
}

/// The outcome of the guest: its tests, or why it was not started.
type Guest = Result<anyhow::Result<vm::Tally>, String>;

/// Runs all layers and prints the account.
///
/// # Errors
/// If cargo cannot be run or the tests do not compile. Failing tests are an outcome, not an error.
pub(crate) fn run(root: &Path, strictness: Strictness) -> anyhow::Result<Outcome> {
    let slow = SlowTests::read(root)?;
    let mut stages = Stages::default();
    let (executables, guest_lacks) = prepare(root, &mut stages)?;
    let (ran, guest) = run_tests(root, executables, guest_lacks, strictness, &mut stages)?;
    let mut summary = account(&ran);
    record_guest(&mut summary, guest);
    run_end_to_end(root, &mut summary, strictness, &mut stages)?;

    eprint!("{}", report::times(&ran));
    for warning in slow.warnings(&report::all_tests(&ran)) {
        eprintln!("warning: {warning}");
    }
    eprintln!();
    // Its word is not asked: what a stage found stands in the account, with the layer's name.
    stages.finish();
    eprint!("{}", summary.render());
    // On stdout and alone on its line: CI reads it.
    writeln!(std::io::stdout(), "{}", summary.closing_line())?;
    Ok(summary.outcome(strictness))
}

/// Builds what the run starts. The guest's disk is made of packages, so it waits for a mirror
/// rather than for a processor, and is made meanwhile.
fn prepare(root: &Path, stages: &mut Stages) -> anyhow::Result<(Vec<Executable>, Option<String>)> {
    let is_root = is_root()?;
    std::thread::scope(|scope| {
        let disk = scope.spawn(move || guest_lacks(root, is_root));
        let mut built = None;
        stages.run("build", || {
            built = Some(build::build(root)?);
            Ok(())
        });
        let lacks = disk
            .join()
            .map_err(|_| anyhow::anyhow!("the thread of the guest's disk panicked"))?;
        Ok((built.context("nothing to run")?, lacks))
    })
}

/// What this host lacks to run the guest; makes the guest's disk where it lacks nothing.
fn guest_lacks(root: &Path, is_root: bool) -> Option<String> {
    if !is_root {
        return Some("root: its disk is made of files that belong to root".to_owned());
    }
    vm::what_is_missing().or_else(|| {
        let failed = vm::prepare(root).err()?;
        Some(format!("its guest: {failed:#}"))
    })
}

/// Runs the executables of all lanes, and the guest after the lane of clusters.
fn run_tests(
    root: &Path,
    executables: Vec<Executable>,
    guest_lacks: Option<String>,
    strictness: Strictness,
    stages: &mut Stages,
) -> anyhow::Result<(Vec<Ran>, Guest)> {
    let log_path = target_folder(root).join("test-layers.log");
    let output = Output::create(&log_path)?;
    let deadline = match strictness {
        Strictness::Report => None,
        Strictness::Fail => Some(Instant::now() + TESTS_TIME_MAX),
    };
    let (clusters, clusters_over) = mpsc::sync_channel(0);
    std::thread::scope(|scope| {
        let guest = scope.spawn(move || {
            // Nothing is sent: it is the end of the lane that ends this.
            let _ = clusters_over.recv();
            run_guest(root, guest_lacks)
        });
        let mut ran = Vec::new();
        stages.run("tests", || {
            ran = run::run_all(executables, &output, deadline, clusters)?;
            Ok(())
        });
        eprintln!("the whole output is in {}", log_path.display());
        let mut outcome = None;
        stages.run("guest, after the tests", || {
            let joined = guest.join();
            outcome =
                Some(joined.map_err(|_| anyhow::anyhow!("the thread of the guest panicked"))?);
            Ok(())
        });
        Ok((ran, outcome.context("the guest has no outcome")?))
    })
}

/// The guest, with the programs that the tests are run with; it keeps its own deadline.
fn run_guest(root: &Path, lacks: Option<String>) -> Guest {
    if let Some(lacks) = lacks {
        return Err(lacks);
    }
    let options = vm::Options {
        binaries: Some(target_folder(root).join("debug")),
        only: None,
        priority: vm::Priority::BehindTests,
    };
    Ok(vm::run_tests(root, &options))
}

fn record_guest(summary: &mut Summary, guest: Guest) {
    match guest {
        Err(lacks) => summary.skip(LayerName::RealHost, &lacks),
        Ok(Ok(vm::Tally { passed, failed })) => {
            summary.record(LayerName::RealHost, passed, failed);
        }
        // The other layers have results, and they are worth their lines.
        Ok(Err(error)) => {
            let failure = Failure::new("the guest", vec![format!("error: {error:#}")]);
            summary.record(LayerName::RealHost, 0, vec![failure]);
        }
    }
}

/// Sums the results up by crate.
fn account(ran: &[Ran]) -> Summary {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for one in ran {
        let tally = tallies.entry(one.crate_name.clone()).or_default();
        tally.add(one.tally.clone());
    }
    let mut summary = Summary::new(&tallies);
    for one in ran {
        if let Some(why) = &one.broken {
            summary.broke(&one.crate_name, why.clone());
        }
    }
    summary
}

/// The README's own command, start to end, with the programs that the tests were run with.
fn run_end_to_end(
    root: &Path,
    summary: &mut Summary,
    strictness: Strictness,
    stages: &mut Stages,
) -> anyhow::Result<()> {
    if !is_root()? {
        summary.skip(
            LayerName::EndToEnd,
            "root: tasks are isolated and limited by the kernel",
        );
        return Ok(());
    }
    let mut quickstart = match strictness {
        Strictness::Report => Command::new("hack/quickstart"),
        Strictness::Fail => {
            let mut timeout = Command::new("timeout");
            timeout
                .arg("--kill-after=30")
                .arg(QUICKSTART_SECONDS_MAX.to_string())
                .arg("hack/quickstart");
            timeout
        }
    };
    quickstart
        .arg("--once")
        .env("DROVER_QUICKSTART_BIN", target_folder(root).join("debug"))
        .current_dir(root)
        .stdin(Stdio::null());
    let mut passed = false;
    let mut failed = Vec::new();
    stages.run("quickstart", || {
        let status = quickstart.status().context("run hack/quickstart")?;
        passed = status.success();
        if !passed {
            failed.push(Failure::new("hack/quickstart", vec![status.to_string()]));
        }
        anyhow::ensure!(passed, "hack/quickstart: {status}");
        Ok(())
    });
    summary.record(LayerName::EndToEnd, usize::from(passed), failed);
    Ok(())
}

fn is_root() -> anyhow::Result<bool> {
    let status = std::fs::read_to_string("/proc/self/status").context("read /proc/self/status")?;
    let uids = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .unwrap_or_default();
    Ok(uids.split_whitespace().nth(1) == Some("0"))
}
