//! Processes as the kernel shows them: their arguments, children, memory and processor time.

use std::time::Duration;

use anyhow::Context;

/// The memory of a process in KiB, shared pages counted in proportion.
///
/// # Errors
/// If the process is gone or the kernel does not tell.
pub fn memory_kib(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    parse_pss(&text).with_context(|| format!("no Pss in {path}"))
}

fn parse_pss(text: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The resident memory of a process in KiB.
///
/// # Errors
/// If the process is gone or the kernel does not tell.
pub fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    status_kib(pid, "VmRSS:")
}

/// The most resident memory that a process ever had, in KiB.
///
/// # Errors
/// If the process is gone or the kernel does not tell.
pub fn peak_memory_kib(pid: u32) -> anyhow::Result<u64> {
    status_kib(pid, "VmHWM:")
}

/// A number of proc_pid_status(5).
fn status_kib(pid: u32, field: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let rest = text.lines().find_map(|line| line.strip_prefix(field));
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("no {field} in {path}"))
}

/// Processor time of a process so far.
///
/// # Errors
/// If the kernel does not tell.
pub fn cpu(pid: u32) -> anyhow::Result<Duration> {
    // User and system time are fields 14 and 15, in hundredths of a second.
    let stat = stat(pid).with_context(|| format!("process {pid} is gone"))?;
    let ticks = stat.iter().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// The children of `ancestor`, theirs, and so on, with their arguments.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn descendants(ancestor: u32) -> anyhow::Result<Vec<(u32, Vec<String>)>> {
    let parents: Vec<(u32, u32)> = pids()?
        .into_iter()
        .filter_map(|pid| Some((pid, stat(pid)?.get(1)?.parse().ok()?)))
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

/// All processes.
pub(crate) fn pids() -> anyhow::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(pids)
}

/// Of a process that may have ended since it was seen: then there are none.
pub(crate) fn arguments(pid: u32) -> Vec<String> {
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .unwrap_or_default()
        .split(|byte| *byte == 0)
        .filter(|argument| !argument.is_empty())
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect()
}

/// The fields from the third on: the name before them, in parentheses, may hold anything
/// (proc_pid_stat(5)).
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::process::{Daemon, Place};

    #[test]
    fn memory_and_time_of_a_process_are_found() {
        let own = std::process::id();
        assert!(memory_kib(own).unwrap() > 0);
        assert!(peak_memory_kib(own).unwrap() >= resident_kib(own).unwrap());
        assert!(cpu(std::process::id()).unwrap() < Duration::from_secs(3600));
        let text = "Rss: 9 kB\nPss:      12 kB\nPss_Dirty: 3 kB\n";
        assert_eq!(parse_pss(text), Some(12));
        cpu(u32::MAX).unwrap_err();
    }

    #[test]
    fn a_child_is_found_with_its_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("x.log");
        let word = log.to_str().unwrap();
        let tail = Path::new("/usr/bin/tail");
        let mut daemon = Daemon::start("x", tail, &["-f", word], &log, &Place::Here).unwrap();
        // The parent goes on a moment before the kernel has put the arguments in place.
        let found = |children: Vec<(u32, Vec<String>)>| {
            let mut children = children.into_iter();
            children
                .any(|(pid, arguments)| pid == daemon.id() && arguments.iter().any(|it| it == word))
        };
        while !found(descendants(std::process::id()).unwrap()) {
            std::thread::yield_now();
        }
        daemon.must_run().unwrap();
    }
}
