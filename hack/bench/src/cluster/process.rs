//! A daemon started by us: its log in a file, its memory as the kernel accounts it, its end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// How long a daemon may take to end by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
const LOG_LINES_SHOWN: usize = 20;

/// A running daemon. Dropping it kills it: nothing may outlive a measurement.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `program` with its output in `folder/NAME.log`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error with the end of its log if it is no longer running.
    ///
    /// # Errors
    /// If it ended.
    pub(crate) fn must_run(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!(
                "{} ended ({status}); its log ends with:\n{}",
                self.name,
                self.log_end()
            ),
        }
    }

    /// The last lines of its log.
    pub(crate) fn log_end(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    /// Asks it to end and waits; kills it when it does not.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        // The standard library can only kill; asking politely is a program of its own.
        Command::new("kill")
            .args(["-TERM", &self.id().to_string()])
            .status()?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= deadline {
                self.child.kill()?;
                self.child.wait()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Nothing is left to report an error to.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The memory of a process in KiB, shared pages counted in proportion.
///
/// # Errors
/// If the process is gone or the kernel does not tell.
pub(crate) fn memory_kib(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    parse_pss(&text).with_context(|| format!("no Pss in {path}"))
}

fn parse_pss(text: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Processes whose command line names `word`, with their arguments.
///
/// # Errors
/// If `/proc` cannot be read.
pub(crate) fn processes_naming(word: &str) -> anyhow::Result<Vec<(u32, Vec<String>)>> {
    let mut found = Vec::new();
    for pid in pids()? {
        let arguments = arguments(pid);
        if pid != std::process::id() && arguments.iter().any(|argument| argument.contains(word)) {
            found.push((pid, arguments));
        }
    }
    Ok(found)
}

/// The children of `ancestor`, theirs, and so on, with their arguments.
///
/// # Errors
/// If `/proc` cannot be read.
pub(crate) fn descendants(ancestor: u32) -> anyhow::Result<Vec<(u32, Vec<String>)>> {
    let parents: Vec<(u32, u32)> = pids()?
        .into_iter()
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut family = vec![ancestor];
    let mut next = 0;
    while let Some(known) = family.get(next).copied() {
        let children = parents.iter().filter(|(_, parent)| *parent == known);
        family.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    let found = family.into_iter().skip(1);
    Ok(found.map(|pid| (pid, arguments(pid))).collect())
}

fn pids() -> anyhow::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(pids)
}

/// Of a process that may have ended since it was seen: then there are none.
fn arguments(pid: u32) -> Vec<String> {
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .unwrap_or_default()
        .split(|byte| *byte == 0)
        .filter(|argument| !argument.is_empty())
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect()
}

fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the parent is the second field after it
    // (proc_pid_stat(5)).
    let rest = text.rsplit_once(") ")?.1;
    rest.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_asked_to_end_and_its_log_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
        let mut daemon =
            Daemon::start("demo", Path::new("/bin/sh"), &["-c", script], folder.path()).unwrap();
        while daemon.log_end().is_empty() {
            daemon.must_run().unwrap();
        }
        daemon.stop().unwrap();
        assert_eq!(daemon.log_end(), "ready\nasked");
        assert!(daemon.must_run().unwrap_err().to_string().contains("asked"));
    }

    #[test]
    fn memory_and_command_line_of_a_process_are_found() {
        assert!(memory_kib(std::process::id()).unwrap() > 0);
        assert_eq!(
            parse_pss("Rss: 9 kB\nPss:      12 kB\nPss_Dirty: 3 kB\n"),
            Some(12)
        );
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("x.log");
        let word = log.to_str().unwrap();
        let tail = Path::new("/usr/bin/tail");
        let mut daemon = Daemon::start("x", tail, &["-f", word], folder.path()).unwrap();
        let own = daemon.id();
        let children = descendants(std::process::id()).unwrap();
        assert!(children.iter().any(|(pid, _)| *pid == own));
        // The parent goes on a moment before the kernel has put the arguments in place.
        while !processes_naming(word)
            .unwrap()
            .iter()
            .any(|(pid, _)| *pid == own)
        {
            daemon.must_run().unwrap();
        }
    }
}
