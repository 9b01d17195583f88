//! Kills processes in task cgroups that no record names. A record that was lost or damaged while no
//! keeper ran hides its task from recovery, and noded would start the task a second time.
//!
//! ```text
//!   populated cgroup                becomes
//!   <alloc>/<task>.<run>            killed; the run has exited, status unknown
//!   the same, its end acknowledged  killed
//!   any other name                  killed
//!   one with keeper in it           left alone
//! ```
//!
//! Two nodes of one host may share a cgroup base by mistake. Each keeper holds a lock of the base,
//! and one that is not alone kills nothing.
//!
//! The run is known from here on, so a spawn of the same task waits until its cgroup is empty. It
//! is not taken over alive: without the record nothing says which process is the main one.

use super::Keeper;
use super::cgroup::CgroupBase;
use super::custody::{ENDING_MAX, Ending, Now, Outcome, Phase, Run, Tree};
use crate::protocol::{Exit, ExitCause, ExitStatus, OomKill, Remains, TaskKey};
use crate::report::tell;
use rustix::io::Errno;
use std::collections::BTreeSet;

impl Keeper {
    /// Looks at every cgroup two levels below the base, after the records were read. Where another
    /// keeper uses the base, too, what is not ours may be its task: nothing is killed.
    pub(super) fn kill_orphans(&mut self, now: Now) {
        match self.base.is_ours_alone() {
            Ok(true) => {}
            Ok(false) => {
                return tell!(
                    "keeper: another keeper uses {}; processes without a record stay. Give each \
                     node of this host a cgroup_base of its own",
                    self.cgroup_base.display()
                );
            }
            Err(errno) => return tell!("keeper: its cgroup base cannot be locked: {errno}"),
        }
        let alive = self.custody.runs().filter_map(|(_, run)| {
            let has_ended = matches!(run.phase, Phase::Ended(_));
            (!has_ended).then(|| run.cgroup.clone())
        });
        let alive: BTreeSet<String> = alive.collect();
        // A base that was given one level too high has keeper below it, and noded.
        let own = match std::fs::read_to_string("/proc/self/cgroup") {
            Ok(own) => own,
            Err(error) => return tell!("keeper: its own cgroup is unknown: {error}"),
        };
        match find(&self.base, &alive) {
            Ok(paths) => {
                let others = paths.iter().filter(|path| !is_within(&own, path));
                others.for_each(|path| self.end_orphan(path, now));
            }
            Err(errno) => tell!("keeper: the task cgroups cannot be listed: {errno}"),
        }
    }

    fn end_orphan(&mut self, path: &str, now: Now) {
        let key = key_of(path).filter(|key| !self.custody.is_past(key));
        let Some(key) = key else {
            tell!("keeper: cgroup {path} has processes of no known run; killing them");
            match self.base.task(path).and_then(|cgroup| cgroup.kill()) {
                Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
                Err(errno) => tell!("keeper: cgroup {path} cannot be killed: {errno}"),
            }
            return;
        };
        tell!("keeper: {key}: it has processes and no usable record; killing them");
        let handles = self.new_handles(&key);
        self.handles.insert(key.clone(), handles);
        let run = Run {
            cgroup: path.to_owned(),
            fifos: Vec::new(),
            phase: Phase::Ending(ending(now)),
        };
        let effects = self.custody.insert(&key, run);
        self.execute(effects, now);
        let effects = self.custody.adopt_orphan(&key, Tree::Populated);
        self.execute(effects, now);
    }
}

fn ending(now: Now) -> Ending {
    Ending {
        pid: 0,
        outcome: Outcome::Exited(Exit {
            status: ExitStatus::Unknown,
            oom: OomKill::NotMeasured,
            cause: ExitCause::KillRequest,
            remains: Remains::None,
            at: now.wall,
        }),
        deadline: now.boot.plus(ENDING_MAX),
    }
}

/// Whether a process whose /proc/PID/cgroup says `own` is in the cgroup `path`, or below it.
fn is_within(own: &str, path: &str) -> bool {
    let mut v2 = own.lines().filter_map(|line| line.strip_prefix("0::"));
    v2.any(|own| format!("{own}/").contains(&format!("/{path}/")))
}

/// The populated cgroups of the first two levels that are not in `alive`; one of the first level
/// only where it holds none of the second and none that is in `alive`.
fn find(base: &CgroupBase, alive: &BTreeSet<String>) -> Result<Vec<String>, Errno> {
    let mut found = Vec::new();
    for alloc in base.children(None)? {
        if alive.contains(&alloc) || !is_populated(base, &alloc) {
            continue;
        }
        let before = found.len();
        for name in base.children(Some(&alloc)).unwrap_or_default() {
            let path = format!("{alloc}/{name}");
            if !alive.contains(&path) && is_populated(base, &path) {
                found.push(path);
            }
        }
        let below = format!("{alloc}/");
        let has_known = alive.range(below.clone()..).next();
        if found.len() == before && !has_known.is_some_and(|next| next.starts_with(&below)) {
            found.push(alloc);
        }
    }
    Ok(found)
}

fn is_populated(base: &CgroupBase, path: &str) -> bool {
    let tree = base.task(path).and_then(|cgroup| cgroup.tree());
    tree == Ok(Tree::Populated)
}

/// The run that noded gave this cgroup: `<alloc>/<task>.<run>`.
fn key_of(path: &str) -> Option<TaskKey> {
    let (alloc, name) = path.split_once('/')?;
    let (task, run) = name.rsplit_once('.')?;
    TaskKey::new(alloc, task, run.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_with_keeper_in_it_is_recognized() {
        let own = "4:cpu:/tasks\n0::/drover/supervisor\n";
        for (path, expected) in [
            ("supervisor", true),
            ("drover/supervisor", true),
            ("drover", true),
            ("super", false),
            ("tasks", false),
            ("supervisor/web.1", false),
        ] {
            assert_eq!(is_within(own, path), expected, "{path}");
        }
    }

    #[test]
    fn a_cgroup_names_its_run_only_as_noded_spells_it() {
        let key = key_of("0e7f/web.v2.12").unwrap();
        assert_eq!(
            (key.alloc(), key.task(), key.run_epoch()),
            ("0e7f", "web.v2", 12)
        );
        for other in [
            "web",
            "0e7f/web",
            "0e7f/web.x",
            "0e7f/.3",
            "0_f/web.3",
            "a/b/c.1",
        ] {
            assert_eq!(key_of(other), None, "{other}");
        }
    }
}
