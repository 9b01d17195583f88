//! Runs the test executables, lane beside lane.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use anyhow::Context;
use parking_lot::Mutex;

use super::build::Executable;
use super::log::{LogReader, Shown, Tally};
use super::plan::{self, Lane};
use super::times::{Took, durations};

/// The results of one executable.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) crate_name: String,
    pub(super) label: String,
    pub(super) time: Duration,
    pub(super) tally: Tally,
    pub(super) tests: Vec<Took>,
    /// Why there are no results: it crashed, was killed, or was not started.
    pub(super) broken: Option<String>,
}

/// Where all lanes write: everything to the file, the shown lines to stdout.
#[derive(Debug)]
pub(super) struct Output(Mutex<File>);

impl Output {
    /// # Errors
    /// If the file cannot be created.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self(Mutex::new(file)))
    }

    fn line(&self, label: &str, line: &str, shown: Shown) -> anyhow::Result<()> {
        // Ignores poisoning: a line is written whole or the run fails anyway.
        let mut file = self.0.lock();
        writeln!(file, "{label}| {line}")?;
        if shown == Shown::Yes {
            writeln!(std::io::stdout(), "{label}| {line}")?;
        }
        Ok(())
    }
}

/// Runs all executables; the answer has the order in which lanes and executables were planned.
///
/// `deadline` is when an executable that still runs is killed; `None` without one. `clusters` is
/// dropped when the last executable of the lane of clusters has ended.
///
/// # Errors
/// If output cannot be written. Failing and crashing tests are results, not errors.
pub(super) fn run_all(
    executables: Vec<Executable>,
    output: &Output,
    deadline: Option<Instant>,
    clusters: SyncSender<()>,
) -> anyhow::Result<Vec<Ran>> {
    let lanes = plan::queues(executables);
    let mut clusters = Some(clusters);
    std::thread::scope(|scope| {
        let running: Vec<_> = lanes
            .iter()
            .map(|(lane, queue)| {
                let held = clusters.take_if(|_| *lane == Lane::Clusters);
                scope.spawn(move || {
                    let ran = run_lane(*lane, queue, output, deadline);
                    drop(held);
                    ran
                })
            })
            .collect();
        drop(clusters);
        let mut all = Vec::new();
        for lane in running {
            let ran = lane
                .join()
                .map_err(|_| anyhow::anyhow!("the thread of a lane panicked"))?;
            all.extend(ran?);
        }
        Ok(all)
    })
}

fn run_lane(
    lane: Lane,
    queue: &[Executable],
    output: &Output,
    deadline: Option<Instant>,
) -> anyhow::Result<Vec<Ran>> {
    queue
        .iter()
        .map(|executable| run_one(executable, lane, output, deadline))
        .collect()
}

fn run_one(
    executable: &Executable,
    lane: Lane,
    output: &Output,
    deadline: Option<Instant>,
) -> anyhow::Result<Ran> {
    let threads = plan::row_of(&executable.crate_name).map_or(1, |row| row.threads);
    let label = executable.label();
    let mut command = command(executable, lane, threads, deadline);
    let (lines, writer) = std::io::pipe().context("make a pipe")?;
    let begun = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("start the tests of {label}"))?;
    // The command holds the writing ends; while it lives, the pipe never ends.
    drop(command);
    let mut reader = LogReader::default();
    for line in BufReader::new(lines).split(b'\n') {
        let line = line.with_context(|| format!("read the output of {label}"))?;
        let line = String::from_utf8_lossy(&line);
        let shown = reader.line(&line, begun.elapsed());
        output.line(&label, &line, shown)?;
    }
    let status = child.wait()?;
    let time = begun.elapsed();
    let (tally, ended) = reader.finish();
    let broken = match &tally {
        None => Some(format!("{label} ended without a result: {status}")),
        Some(tally) if !status.success() && tally.failed == 0 => {
            Some(format!("{label} failed without a failed test: {status}"))
        }
        Some(_) => None,
    };
    let mut tests = durations(&ended, threads);
    for test in &mut tests {
        test.name = format!("{label}::{}", test.name);
    }
    Ok(Ran {
        crate_name: executable.crate_name.clone(),
        label,
        time,
        tally: tally.unwrap_or_default(),
        tests,
        broken,
    })
}

/// The executable as cargo would start it, below `nice`, and below `timeout` where time is limited.
fn command(
    executable: &Executable,
    lane: Lane,
    threads: usize,
    deadline: Option<Instant>,
) -> Command {
    let mut command = Command::new("nice");
    command.arg(format!("--adjustment={}", lane.nice()));
    if let Some(deadline) = deadline {
        // A test that hangs must not take the account with it.
        let left = deadline.saturating_duration_since(Instant::now()).as_secs();
        command
            .args(["timeout", "--kill-after=30"])
            .arg(left.max(1).to_string());
    }
    command
        .arg(&executable.program)
        .arg("--show-output")
        .arg(format!("--test-threads={threads}"))
        .current_dir(&executable.folder)
        .env("CARGO_MANIFEST_DIR", &executable.folder)
        .env("CARGO_PKG_NAME", &executable.crate_name)
        .env("CARGO_PKG_VERSION", &executable.version);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(script: &str) -> Ran {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let status = Command::new("chmod").arg("+x").arg(&program).status();
        assert!(status.unwrap().success());
        let executable = Executable {
            crate_name: "netns".to_owned(),
            target: "it".to_owned(),
            program,
            folder: folder.path().to_owned(),
            version: "0.1.0".to_owned(),
        };
        let output = Output::create(&folder.path().join("log")).unwrap();
        run_one(&executable, Lane::Host, &output, None).unwrap()
    }

    #[test]
    fn results_and_times_are_those_of_the_executable() {
        let ran = ran("echo 'test a ... ok'; echo 'test result: ok. 1 passed; 0 failed;'");
        assert_eq!(ran.broken, None);
        assert_eq!((ran.tally.passed, ran.tally.failed), (1, 0));
        assert_eq!(ran.tests[0].name, "netns/it::a");
    }

    #[test]
    fn an_executable_that_crashes_is_broken() {
        let ran = ran("echo 'test a ... ok'; kill -9 $$");
        assert!(ran.broken.unwrap().contains("without a result"));
    }

    #[test]
    fn an_executable_that_fails_after_its_result_is_broken() {
        let ran = ran("echo 'test result: ok. 1 passed; 0 failed;'; exit 3");
        assert!(ran.broken.unwrap().contains("without a failed test"));
    }

    #[test]
    fn cargo_s_variables_and_the_folder_are_set() {
        let ran = ran(
            "test \"$PWD\" = \"$CARGO_MANIFEST_DIR\" && echo 'test result: ok. 1 passed; 0 failed;'",
        );
        assert_eq!(ran.broken, None);
    }
}
