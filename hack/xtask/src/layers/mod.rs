//! Every test layer that this host can run, and an honest account of those that it cannot.
//!
//! ```text
//! cargo build --bins   -> the programs that the layer of real processes starts
//! cargo test --no-run  -> which binary belongs to which crate, so to which layer
//! cargo test           -> its lines, through the log reader -> a tally per crate
//! hack/quickstart      -> the end-to-end layer
//! a guest (vm)         -> the layer of a real host
//!                         tallies -> table, list of what was skipped and why, one closing line
//! ```
//!
//! A layer without a single test is a failure wherever it happens: somebody deleted it, or a
//! feature switched it off. A layer whose tests were all skipped is a failure where CI=true, since
//! CI has what they need; elsewhere it is said aloud.

mod log;
mod summary;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use serde::Deserialize;

use crate::metadata::Metadata;
use crate::stage::{Outcome, cargo, run as run_program, target_folder};
use crate::vm;
use log::{LogReader, Shown};
use summary::{LayerName, Summary};

/// Longer than the whole suite takes on two cores, shorter than what CI grants.
const TESTS_SECONDS_MAX: u32 = 45 * 60;
const QUICKSTART_SECONDS_MAX: u32 = 20 * 60;

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

/// Runs all layers and prints the account.
///
/// # Errors
/// If cargo cannot be run or the tests do not compile. Failing tests are an outcome, not an error.
pub(crate) fn run(root: &Path, strictness: Strictness) -> anyhow::Result<Outcome> {
    build_programs(root)?;
    let crate_of_binary = build_tests(root)?;
    let (reader, cargo_ok) = run_tests(root, crate_of_binary, strictness)?;
    let mut summary = Summary::new(&reader.into_tallies());
    run_end_to_end(root, &mut summary, strictness)?;
    run_real_host(root, &mut summary)?;
    eprint!("{}", summary.render());
    let outcome = summary.outcome(strictness);
    // On stdout and alone on its line: CI reads it.
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", summary.closing_line())?;
    if outcome == Outcome::Passed && !cargo_ok {
        // Every test passed and cargo still failed: a binary was killed before it could report.
        anyhow::bail!("cargo test failed without a failed test; see the log for a crash");
    }
    Ok(outcome)
}

/// One line of cargo's JSON messages, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    executable: Option<String>,
    profile: Option<Profile>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the daemons and tools: tests that start them find them beside themselves, and old ones
/// would be tested as if they were new.
fn build_programs(root: &Path) -> anyhow::Result<()> {
    eprintln!("building the programs");
    run_program(cargo(root).args(["build", "--workspace", "--bins", "--locked"]))
}

/// Builds all tests; the answer maps the file name of each test binary to its crate.
fn build_tests(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let metadata = Metadata::read(root)?;
    let name_of: BTreeMap<&str, &str> = metadata
        .members()
        .map(|p| (p.id.as_str(), p.name.as_str()))
        .collect();
    eprintln!("building the tests");
    let output = cargo(root)
        .args(["test", "--workspace", "--locked", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("run cargo test --no-run")?;
    anyhow::ensure!(output.status.success(), "the tests do not compile");
    let mut crate_of_binary = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Message = serde_json::from_str(line).context("read a message of cargo")?;
        let is_test = message.profile.is_some_and(|profile| profile.test);
        let (Some(id), Some(path)) = (message.package_id, message.executable) else {
            continue;
        };
        if let Some(name) = name_of.get(id.as_str())
            && is_test
            && message.reason == "compiler-artifact"
        {
            crate_of_binary.insert(log::file_name(&path).to_owned(), (*name).to_owned());
        }
    }
    Ok(crate_of_binary)
}

/// Runs all tests, printing what a reader needs and keeping everything in a file.
fn run_tests(
    root: &Path,
    crate_of_binary: BTreeMap<String, String>,
    strictness: Strictness,
) -> anyhow::Result<(LogReader, bool)> {
    let log_path = target_folder(root).join("test-layers.log");
    let mut log_file = std::fs::File::create(&log_path)
        .with_context(|| format!("create {}", log_path.display()))?;
    let mut command = cargo(root);
    command.args([
        "test",
        "--workspace",
        "--locked",
        "--no-fail-fast",
        "--",
        "--show-output",
    ]);
    let mut command = with_deadline(&command, root, strictness, TESTS_SECONDS_MAX);
    let (lines, writer) = std::io::pipe().context("make a pipe")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .context("run cargo test")?;
    // The command holds the writing ends; while it lives, the pipe never ends.
    drop(command);
    let mut reader = LogReader::new(crate_of_binary);
    let mut stdout = std::io::stdout().lock();
    for line in BufReader::new(lines).split(b'\n') {
        let line = line.context("read the output of cargo test")?;
        let line = String::from_utf8_lossy(&line);
        writeln!(log_file, "{line}")?;
        if reader.line(&line) == Shown::Yes {
            writeln!(stdout, "{line}")?;
        }
    }
    let status = child.wait()?;
    eprintln!("the whole output is in {}", log_path.display());
    Ok((reader, status.success()))
}

/// In CI a test that hangs must not take the summary with it.
fn with_deadline(
    command: &Command,
    root: &Path,
    strictness: Strictness,
    seconds_max: u32,
) -> Command {
    let mut bounded = match strictness {
        Strictness::Report => Command::new(command.get_program()),
        Strictness::Fail => {
            let mut timeout = Command::new("timeout");
            timeout
                .arg("--kill-after=30")
                .arg(seconds_max.to_string())
                .arg(command.get_program());
            timeout
        }
    };
    bounded.args(command.get_args()).current_dir(root);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    bounded
}

/// The README's own command, start to end.
fn run_end_to_end(
    root: &Path,
    summary: &mut Summary,
    strictness: Strictness,
) -> anyhow::Result<()> {
    if !is_root()? {
        summary.skip(
            LayerName::EndToEnd,
            "root: tasks are isolated and limited by the kernel",
        );
        return Ok(());
    }
    let mut quickstart = Command::new("hack/quickstart");
    quickstart.arg("--once");
    let status = with_deadline(&quickstart, root, strictness, QUICKSTART_SECONDS_MAX)
        .stdin(Stdio::null())
        .status()
        .context("run hack/quickstart")?;
    let outcome = if status.success() {
        Outcome::Passed
    } else {
        Outcome::Failed
    };
    match outcome {
        Outcome::Passed => summary.record(LayerName::EndToEnd, 1, 0),
        Outcome::Failed => summary.record(LayerName::EndToEnd, 0, 1),
    }
    Ok(())
}

/// The guest, with the programs that the tests were run with; it keeps its own deadline.
fn run_real_host(root: &Path, summary: &mut Summary) -> anyhow::Result<()> {
    let lacking = if is_root()? {
        vm::what_is_missing().or_else(|| {
            let failed = vm::prepare(root).err()?;
            Some(format!("its guest: {failed:#}"))
        })
    } else {
        Some("root: its disk is made of files that belong to root".to_owned())
    };
    if let Some(lacking) = lacking {
        summary.skip(LayerName::RealHost, &lacking);
        return Ok(());
    }
    let options = vm::Options {
        binaries: Some(target_folder(root).join("debug")),
        only: None,
    };
    match vm::run_tests(root, &options) {
        Ok(vm::Tally { passed, failed }) => {
            for name in &failed {
                eprintln!("real host: {name} FAILED");
            }
            summary.record(LayerName::RealHost, passed, failed.len());
        }
        // The other layers have results, and they are worth their lines.
        Err(error) => {
            eprintln!("error: {error:#}");
            summary.record(LayerName::RealHost, 0, 1);
        }
    }
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
