//! A place in cgroup v2 that vanishes with its test.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A directory of cgroup v2 for one test.
pub(crate) struct TestCgroup {
    pub(crate) path: PathBuf,
}

impl TestCgroup {
    /// `None`, with a line that says so, where the test cannot have one.
    pub(crate) fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return None;
        }
        let Some(mount) = cgroup2_mount() else {
            eprintln!("skipped: needs cgroup v2");
            return None;
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = mount.join(format!("drover-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Some(Self { path })
    }

    /// Makes a task's cgroup and answers its name relative to the base.
    pub(crate) fn task(&self, name: &str) -> String {
        fs::create_dir_all(self.path.join(name)).unwrap();
        name.to_owned()
    }

    pub(crate) fn processes(&self, name: &str) -> usize {
        let list = std::fs::read_to_string(self.path.join(name).join("cgroup.procs"));
        list.unwrap().lines().count()
    }

    pub(crate) fn is_populated(&self, name: &str) -> bool {
        let events = fs::read_to_string(self.path.join(name).join("cgroup.events")).unwrap();
        events.contains("populated 1")
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        for _ in 0..1000 {
            for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
                for below in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                    let _ = fs::remove_dir(below.path());
                }
                let _ = fs::remove_dir(entry.path());
            }
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        eprintln!("left behind: {}", self.path.display());
    }
}

fn cgroup2_mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let is_cgroup2 = after.starts_with("cgroup2 ");
        is_cgroup2.then(|| before.split(' ').nth(4).map(PathBuf::from))?
    })
}
