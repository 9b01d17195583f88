//! What happens to processes: reports of children, deaths, empty cgroups.

use super::cgroup::oom_between;
use super::custody::{Ending, Now, Phase, Tree};
use super::process;
use super::{Keeper, Watch, now};
use crate::protocol::{BootNanos, ExitStatus, OomKill, SpawnFailure, TaskKey};
use crate::report::tell;
use isolation::{Report, read_report};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// How long the status of an adopted process may take to appear after its death: somebody else has
/// to reap it first.
const STATUS_MAX: BootNanos = BootNanos(1_000_000_000);

impl Keeper {
    pub(super) fn on_run_event(&mut self, token: u64, flags: EventFlags) {
        // A run that was released in this same turn has no number any more.
        let Some(key) = self.by_number.get(&(token / 4)).cloned() else {
            return;
        };
        match token % 4 {
            token if token == Watch::Report as u64 => self.on_report(&key),
            token if token == Watch::Tree as u64 => self.on_tree_event(&key),
            _ => self.on_adopted_event(&key, flags),
        }
    }

    /// Takes every child that has ended: main processes, and orphans that became ours as subreaper.
    pub(super) fn reap(&mut self) {
        while let Some((pid, raw)) = crate::sys::wait::reap_any() {
            if let Some(key) = self.by_pid.remove(&pid) {
                // A report that is already there says whether the program ever ran.
                self.on_report(&key);
                self.on_main_exit(&key, process::exit_status(raw), now());
            } else {
                self.on_other_child(pid, raw);
            }
        }
    }

    fn on_report(&mut self, key: &TaskKey) {
        let Some(handles) = self.handles.get_mut(key) else {
            return;
        };
        let Some(report) = &handles.report else {
            return;
        };
        let now = now();
        let failure = match read_report(report) {
            Ok(Report::Pending) => return,
            Ok(Report::Running) => None,
            Ok(Report::Failed(failure)) => Some(SpawnFailure {
                step_index: Some(failure.step),
                step: handles
                    .plan
                    .as_ref()
                    .map_or_else(String::new, |plan| plan.describe(failure)),
                errno: failure.errno,
                at: now.wall,
            }),
            Err(error) => Some(SpawnFailure {
                step_index: None,
                step: error.to_string(),
                errno: 0,
                at: now.wall,
            }),
        };
        handles.report = None;
        handles.plan = None;
        let effects = match failure {
            Some(failure) => self.custody.on_start_failed(key, failure),
            None => {
                let ticks = self
                    .pid_of(key)
                    .and_then(process::start_time_ticks)
                    .unwrap_or(0);
                self.custody.on_program_running(key, ticks, now)
            }
        };
        self.execute(effects, now);
    }

    fn on_main_exit(&mut self, key: &TaskKey, status: ExitStatus, now: Now) {
        let (tree, oom) = self.remains_of(key);
        let effects = self.custody.on_main_exit(key, status, oom, tree, now);
        self.execute(effects, now);
    }

    fn remains_of(&self, key: &TaskKey) -> (Tree, OomKill) {
        let at_start = self
            .handles
            .get(key)
            .and_then(|handles| handles.oom_kills_at_start);
        let cgroup = self.custody.run(key).map(|run| self.base.task(&run.cgroup));
        match cgroup {
            Some(Ok(cgroup)) => {
                let tree = cgroup.tree().unwrap_or(Tree::Empty);
                (tree, oom_between(at_start, cgroup.oom_kills()))
            }
            // A cgroup with a process in it cannot be removed.
            Some(Err(_)) | None => (Tree::Empty, OomKill::NotMeasured),
        }
    }

    fn on_tree_event(&mut self, key: &TaskKey) {
        let Some(watch) = self
            .handles
            .get(key)
            .and_then(|handles| handles.tree.as_ref())
        else {
            return;
        };
        // Reading through this descriptor is also what makes it poll as unchanged again.
        let mut bytes = [0; 256];
        let is_empty = match rustix::io::pread(watch, &mut bytes, 0) {
            Ok(length) => bytes[..length]
                .windows(11)
                .any(|window| window == b"populated 0"),
            Err(Errno::NODEV) => true,
            Err(_) => return,
        };
        if !is_empty {
            return;
        }
        let now = now();
        if matches!(
            self.custody.run(key).map(|run| &run.phase),
            Some(Phase::Ending(_))
        ) {
            let effects = self.custody.on_tree_empty(key);
            return self.execute(effects, now);
        }
        // An adopted run whose processes are all gone, the main one included; a pidfd that still
        // waits for its status tells more.
        let handles = self.handles.get(key);
        if handles.is_some_and(|handles| handles.pidfd.is_none()) {
            self.on_main_exit(key, ExitStatus::Unknown, now);
        } else if let Some(handles) = self.handles.get_mut(key) {
            handles.tree = None;
        }
    }

    /// A pidfd of a process that is not our child polls as readable when it ends, and as hung up
    /// when it was reaped (Linux 6.9).
    fn on_adopted_event(&mut self, key: &TaskKey, flags: EventFlags) {
        if flags.contains(EventFlags::HUP) || self.unreaped_status(key).is_some() {
            return self.end_adopted(key, now());
        }
        let Some(handles) = self.handles.get_mut(key) else {
            return;
        };
        let Some(pidfd) = &handles.pidfd else { return };
        let token = EventData::new_u64(handles.number * 4 + Watch::Adopted as u64);
        handles.status_until = Some(now().boot.plus(STATUS_MAX));
        // Only the hang-up is of interest now, and it is always reported.
        if let Err(errno) = epoll::modify(&self.epoll, pidfd, token, EventFlags::empty()) {
            tell!("keeper: {key}: its pidfd cannot be polled: {errno}");
        }
    }

    /// Ends adopted runs whose status did not appear in time.
    pub(super) fn give_up_on_statuses(&mut self, now: Now) {
        let due: Vec<TaskKey> = self
            .handles
            .iter()
            .filter(|(_, handles)| handles.status_until.is_some_and(|until| until <= now.boot))
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            self.end_adopted(&key, now);
        }
    }

    fn end_adopted(&mut self, key: &TaskKey, now: Now) {
        let Some(handles) = self.handles.get_mut(key) else {
            return;
        };
        handles.status_until = None;
        let pidfd = handles.pidfd.take();
        let remembered = pidfd.and_then(|it| crate::sys::pidfd::remembered_status(it.as_fd()));
        let raw = remembered.or_else(|| self.unreaped_status(key));
        let status = raw.map_or(ExitStatus::Unknown, process::exit_status);
        self.on_main_exit(key, status, now);
    }

    /// What /proc tells of a main process that has ended, where nobody was quick to reap it.
    fn unreaped_status(&self, key: &TaskKey) -> Option<i32> {
        match &self.custody.run(key)?.phase {
            Phase::Running(running) => {
                process::unreaped_status(running.pid, running.start_time_ticks)
            }
            Phase::Starting { .. } | Phase::Failing { .. } | Phase::Ending(_) | Phase::Ended(_) => {
                None
            }
        }
    }

    fn pid_of(&self, key: &TaskKey) -> Option<u32> {
        match &self.custody.run(key)?.phase {
            Phase::Starting { pid, .. }
            | Phase::Failing { pid, .. }
            | Phase::Ending(Ending { pid, .. }) => Some(*pid),
            Phase::Running(running) => Some(running.pid),
            Phase::Ended(_) => None,
        }
    }
}
