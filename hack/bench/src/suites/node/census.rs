//! The census of leaks: things that daemons make for tasks, counted before and after a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::NAME;
use crate::row::Row;

/// How long a daemon may go on removing things after the last task ended; a rest is a leak.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two counts.
const PAUSE: Duration = Duration::from_millis(500);

/// Where to count.
#[derive(Debug)]
pub(super) struct Place {
    /// Process ids and names; the first one's mounts and network are counted.
    pub(super) daemons: Vec<(u32, &'static str)>,
    /// The directory of the tasks' cgroups.
    pub(super) cgroups: PathBuf,
    /// Folders of the daemons: mounts elsewhere belong to somebody else.
    pub(super) folders: Vec<PathBuf>,
}

/// Counts, by what was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Census(BTreeMap<String, usize>);

impl Place {
    /// Counts.
    ///
    /// # Errors
    /// A daemon is gone, or the kernel does not tell.
    pub(super) fn count(&self) -> anyhow::Result<Census> {
        let (first, name) = *self.daemons.first().context("no daemon")?;
        let mut counts = BTreeMap::new();
        counts.insert("cgroups of tasks".to_owned(), folders_below(&self.cgroups));
        for (pid, whose) in [(first, name), (1, "process 1")] {
            let path = format!("/proc/{pid}/mountinfo");
            let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
            counts.insert(
                format!("mounts of {whose}"),
                mounts_in(&text, &self.folders),
            );
        }
        let path = format!("/proc/{first}/net/dev");
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        // Two lines of titles.
        counts.insert(format!("links of {name}"), text.lines().skip(2).count());
        let mut namespaces = BTreeSet::new();
        for (pid, name) in &self.daemons {
            let open = descriptors(*pid)?;
            namespaces.extend(
                open.iter()
                    .filter(|target| target.starts_with("net:"))
                    .cloned(),
            );
            counts.insert(format!("descriptors of {name}"), open.len());
        }
        counts.insert("network namespaces held open".to_owned(), namespaces.len());
        Ok(Census(counts))
    }

    /// Counts until two counts in a row are the same: the state to compare with.
    ///
    /// # Errors
    /// As [`Self::count`].
    pub(super) fn at_rest(&self) -> anyhow::Result<Census> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = self.count()?;
        loop {
            std::thread::sleep(PAUSE);
            let next = self.count()?;
            if next == last || Instant::now() > deadline {
                return Ok(next);
            }
            last = next;
        }
    }

    /// One row for each kind: how much more there is than before, once nothing changes any more.
    ///
    /// # Errors
    /// As [`Self::count`].
    pub(super) fn leaks(&self, before: &Census, run: &str) -> anyhow::Result<Vec<Row>> {
        let deadline = Instant::now() + PATIENCE;
        let mut after = self.count()?;
        while after.more_than(before).values().any(|more| *more > 0) && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
            after = self.count()?;
        }
        let rows = after.more_than(before).into_iter().map(|(what, more)| {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let more = more as f64;
            Row::new(NAME, format!("left behind {run}: {what}"), more, "").at_most(0.0)
        });
        Ok(rows.collect())
    }
}

impl Census {
    fn more_than(&self, before: &Self) -> BTreeMap<String, usize> {
        let more = |(what, count): (&String, &usize)| {
            let earlier = before.0.get(what).copied().unwrap_or(0);
            (what.clone(), count.saturating_sub(earlier))
        };
        self.0.iter().map(more).collect()
    }
}

/// Mounts whose place is in one of the folders (proc_pid_mountinfo(5): the fifth field).
fn mounts_in(text: &str, folders: &[PathBuf]) -> usize {
    let places = text
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(Path::new);
    let ours = |place: &&Path| folders.iter().any(|folder| place.starts_with(folder));
    places.filter(ours).count()
}

fn folders_below(path: &Path) -> usize {
    // It may be removed while we look.
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| 1 + folders_below(&entry.path())).sum()
}

/// Targets of the open descriptors of a process.
fn descriptors(pid: u32) -> anyhow::Result<Vec<String>> {
    let path = format!("/proc/{pid}/fd");
    let entries = std::fs::read_dir(&path).with_context(|| format!("read {path}"))?;
    // One may be closed while we look.
    let targets = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    Ok(targets
        .map(|target| target.to_string_lossy().into_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(folder: &Path) -> Place {
        Place {
            daemons: vec![(std::process::id(), "test")],
            cgroups: folder.to_owned(),
            folders: vec![folder.to_owned()],
        }
    }

    #[test]
    fn a_cgroup_and_a_descriptor_that_stay_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let before = place.count().unwrap();
        std::fs::create_dir_all(folder.path().join("alloc/task")).unwrap();
        let held = std::fs::File::open("/proc/self/ns/net").unwrap();
        let more = place.count().unwrap().more_than(&before);
        assert_eq!(more["cgroups of tasks"], 2);
        assert_eq!(more["network namespaces held open"], 1);
        assert!(more["descriptors of test"] >= 1, "{more:?}");
        drop(held);
        assert_eq!(
            place.count().unwrap().more_than(&before)["network namespaces held open"],
            0
        );
    }

    #[test]
    fn mounts_elsewhere_belong_to_somebody_else() {
        let text = "36 35 98:0 / /data/a rw - tmpfs none rw\n37 35 98:0 / /data-b rw - x y rw\n";
        assert_eq!(mounts_in(text, &[PathBuf::from("/data")]), 1);
    }
}
