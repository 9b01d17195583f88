//! Kills for want of memory whose task goes on: the kernel took a child, an event says it.
//!
//! ```text
//!   POLLPRI on tasks/memory.events --> counts of all runs --> those that rose
//!        --> nothing of the run is dying any more --> Input::OomKills --> the loop
//! ```
//!
//! A run whose main process was killed ends, and keeper reports that with the reason. So this waits
//! until the victims are gone, and the loop reports only runs that still have a process.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use isolation::cgroup::{Hierarchy, TaskCgroup, TaskPath};
use protocol_error_chain::chain;
use tokio::io::Interest;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::executor::{Executor, run_of};
use crate::input::Input;
use crate::poll_fd;

/// Between two looks at victims: keeper kills the rest of a run within it.
const SETTLE_PAUSE: Duration = Duration::from_millis(200);
/// A victim with much memory takes a while to die; beyond, the loop decides by what it knows.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// Between two comparisons: a run of kills is a few events, not thousands.
const COMPARE_PAUSE: Duration = Duration::from_secs(1);
/// PF_EXITING of linux/sched.h.
const EXITING: u64 = 0x4;
/// The bit of SIGKILL in a set of pending signals.
const KILL_PENDING: u64 = 1 << 8;

/// Reports kills until the loop ends. Returns at once on a host without a memory controller.
pub(crate) async fn watch(executor: Arc<Executor>, inputs: mpsc::Sender<Input>) {
    let events = match executor.hierarchy.oom_events() {
        Ok(Some(events)) => events,
        Ok(None) => {
            tracing::debug!("no memory controller: OOM kills of child processes are not reported");
            return;
        }
        Err(error) => {
            let error = chain(&error);
            tracing::warn!(%error, "OOM kills of child processes are not reported");
            return;
        }
    };
    if let Err(error) = follow(&executor, events.into_descriptor(), &inputs).await {
        tracing::warn!(%error, "OOM kills of child processes are not reported any more");
    }
}

async fn follow(
    executor: &Arc<Executor>,
    events: std::os::fd::OwnedFd,
    inputs: &mpsc::Sender<Input>,
) -> io::Result<()> {
    let events = poll_fd::poll_for(events, Interest::PRIORITY)?;
    let mut ledger = Ledger::default();
    loop {
        // Reading arms the next POLLPRI; the first comparison finds kills while noded was away.
        rustix::io::pread(events.get_ref(), &mut [0; 512], 0)?;
        let own = Arc::clone(executor);
        let counts = blocking(move || counts(&own.hierarchy)).await?;
        let risen = ledger.risen(&counts);
        if !risen.is_empty() {
            settle(executor, &risen).await?;
            let runs = risen.iter().filter_map(|(path, _)| run_of(path)).collect();
            if inputs.send(Input::OomKills(runs)).await.is_err() {
                return Ok(());
            }
            let own = Arc::clone(executor);
            ledger.note(&risen);
            blocking(move || note(&own.hierarchy, &risen)).await?;
        }
        tokio::time::sleep(COMPARE_PAUSE).await;
        events.ready(Interest::PRIORITY).await?.clear_ready();
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other)
}

/// Kills of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Count {
    path: TaskPath,
    /// Kills that were reported, by the mark on its cgroup.
    reported: u64,
    kills: u64,
}

/// Counts of all runs. Blocks.
fn counts(hierarchy: &Hierarchy) -> Vec<Count> {
    let paths = hierarchy.tasks().unwrap_or_default();
    let count = |path: TaskPath| {
        // A run that ended meanwhile has none.
        let cgroup = hierarchy.open_task(&path).ok()?;
        Some(Count {
            reported: cgroup.reported_oom_kills(),
            kills: cgroup.oom_kills().ok()?,
            path,
        })
    };
    paths.into_iter().filter_map(count).collect()
}

fn note(hierarchy: &Hierarchy, risen: &[(TaskPath, u64)]) {
    for (path, kills) in risen {
        let noted = hierarchy
            .open_task(path)
            .map(|it| it.set_reported_oom_kills(*kills));
        if let Ok(Err(error)) = noted {
            tracing::debug!(run = %path, %error, "a restarted noded will report this kill again");
        }
    }
}

/// Kills that this noded reported: of use where cgroups take no attributes.
#[derive(Debug, Default)]
struct Ledger(BTreeMap<TaskPath, u64>);

impl Ledger {
    /// Runs with more kills than were reported, and how many they have. Runs that are gone are
    /// forgotten.
    fn risen(&mut self, counts: &[Count]) -> Vec<(TaskPath, u64)> {
        self.0
            .retain(|path, _| counts.iter().any(|count| count.path == *path));
        let reported = |count: &Count| {
            let own = self.0.get(&count.path).copied().unwrap_or(0);
            own.max(count.reported)
        };
        let risen = counts.iter().filter(|it| it.kills > reported(it));
        risen.map(|it| (it.path.clone(), it.kills)).collect()
    }

    fn note(&mut self, risen: &[(TaskPath, u64)]) {
        self.0.extend(risen.iter().cloned());
    }
}

/// Waits until nothing in these runs is dying, twice in a row.
async fn settle(executor: &Arc<Executor>, risen: &[(TaskPath, u64)]) -> io::Result<()> {
    let end = Instant::now() + SETTLE_MAX;
    let mut calm = 0;
    while calm < 2 && Instant::now() < end {
        tokio::time::sleep(SETTLE_PAUSE).await;
        let own = Arc::clone(executor);
        let paths: Vec<TaskPath> = risen.iter().map(|(path, _)| path.clone()).collect();
        let dying = blocking(move || {
            let mut cgroups = paths
                .iter()
                .filter_map(|path| own.hierarchy.open_task(path).ok());
            cgroups.any(|cgroup| has_dying(&cgroup))
        });
        calm = if dying.await? { 0 } else { calm + 1 };
    }
    Ok(())
}

fn has_dying(cgroup: &TaskCgroup) -> bool {
    let of = |pid: u32, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    cgroup.procs().unwrap_or_default().into_iter().any(|pid| {
        let (status, stat) = (of(pid, "status"), of(pid, "stat"));
        // A process that is gone by now is not dying any more.
        let texts = status.ok().zip(stat.ok());
        texts.is_some_and(|(status, stat)| is_dying(&status, &stat))
    })
}

/// Whether a process was killed and is not gone: SIGKILL waits for it, or it is on its way out.
fn is_dying(status: &str, stat: &str) -> bool {
    let pending = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let set = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
        set.is_some_and(|set| set & KILL_PENDING != 0)
    };
    // Behind the name in brackets: state, ppid, pgrp, session, tty, tpgid, flags.
    let flags = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    pending("SigPnd:") || pending("ShdPnd:") || flags.is_some_and(|flags| flags & EXITING != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(task: &str, reported: u64, kills: u64) -> Count {
        let path = TaskPath::new("0e7f", task).unwrap();
        Count {
            path,
            reported,
            kills,
        }
    }

    fn tasks(risen: &[(TaskPath, u64)]) -> Vec<(&str, u64)> {
        risen
            .iter()
            .map(|(path, kills)| (path.task(), *kills))
            .collect()
    }

    #[test]
    fn every_kill_is_reported_once() {
        let mut ledger = Ledger::default();
        let counts = [count("a.1", 0, 0), count("b.1", 0, 2), count("c.1", 0, 1)];
        let risen = ledger.risen(&counts);
        assert_eq!(tasks(&risen), [("b.1", 2), ("c.1", 1)]);
        // Nothing was sent yet: they are still news.
        assert_eq!(ledger.risen(&counts), risen);
        ledger.note(&risen);
        assert!(ledger.risen(&counts).is_empty());
        let later = [count("b.1", 0, 3), count("c.1", 0, 1)];
        assert_eq!(tasks(&ledger.risen(&later)), [("b.1", 3)]);
    }

    #[test]
    fn a_restarted_noded_reports_only_the_kills_of_its_absence() {
        let counts = [count("a.1", 2, 2), count("b.1", 2, 3)];
        assert_eq!(tasks(&Ledger::default().risen(&counts)), [("b.1", 3)]);
    }

    #[test]
    fn runs_that_are_gone_are_forgotten() {
        let mut ledger = Ledger::default();
        ledger.note(&[(TaskPath::new("0e7f", "a.1").unwrap(), 5)]);
        assert!(ledger.risen(&[count("b.1", 0, 0)]).is_empty());
        assert!(ledger.0.is_empty());
    }

    #[test]
    fn a_killed_process_is_dying_until_it_is_gone() {
        let status = |pending: &str, shared: &str| {
            format!("Name:\tx\nSigPnd:\t{pending}\nShdPnd:\t{shared}\nSigBlk:\t0000000000000100\n")
        };
        let stat = |flags: u64| format!("7 (a) b)) S 1 7 7 0 -1 {flags} 0 0 0 0");
        let (none, kill) = ("0000000000000000", "0000000000000100");
        assert!(!is_dying(&status(none, none), &stat(0x40_0000)));
        assert!(is_dying(&status(kill, none), &stat(0)));
        assert!(is_dying(&status(none, kill), &stat(0)));
        assert!(is_dying(&status(none, none), &stat(0x40_0004)));
    }
}
