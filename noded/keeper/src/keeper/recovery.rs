//! Takes over from a keeper that died: from records and from what the kernel says of their cgroups
//! and processes.
//!
//! ```text
//!   record        cgroup     main process        becomes
//!   Ended         -          -                   the same outcome, waiting for Acknowledge
//!   Acknowledged  -          -                   the floor of its run epochs
//!   Starting      empty      -                   spawn failed
//!   Starting      populated  -                   killed, spawn failed: nobody knows how far it got
//!   Running       empty      gone                exited, status unknown
//!   Running       populated  same start time     running, watched by pidfd; kill deadline goes on
//!   Running       populated  gone                the rest is killed, exited, status unknown
//!   Ending        empty      reaped              exited, status of the record
//!   Ending        populated  reaped              the rest is killed, exited, status of the record
//!   none, damaged populated  -                   killed, exited, unknown ([`super::orphans`])
//!   lease         -          -                   counted on; a damaged one has run out
//! ```

use super::custody::{Now, Phase, Run, Running, Tree};
use super::process;
use super::records::{Record, RecordState, Records};
use super::{Keeper, KeeperError, Watch, now};
use crate::io::{Waiting, open_fifo};
use crate::paths::{PathsError, RuntimePaths, open_directory};
use crate::protocol::{BootNanos, ExitCause, ExitStatus, OomKill, SpawnFailure, TaskKey};
use crate::report::tell;
use protocol_error_chain::chain;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// The cgroups of runs that have not ended, as the records say: for a caller that finds no keeper.
///
/// # Errors
/// Where the records are there and cannot be read.
pub fn unfinished_cgroups(paths: &RuntimePaths) -> Result<Vec<String>, KeeperError> {
    let directory = match open_directory(&paths.records_directory()) {
        Ok(directory) => directory,
        Err(PathsError::Open {
            source: Errno::NOENT,
            ..
        }) => return Ok(Vec::new()),
        Err(error) => return Err(KeeperError::Paths(error)),
    };
    let found = Records::new(directory).read_all();
    let records = found.map_err(KeeperError::Records)?.records;
    let unfinished = records.into_iter().filter(|record| match record.state {
        RecordState::Starting | RecordState::Running(_) | RecordState::Ending(_) => true,
        RecordState::Ended(_) | RecordState::Acknowledged => false,
    });
    Ok(unfinished.map(|record| record.cgroup).collect())
}

impl Keeper {
    pub(super) fn recover(&mut self) -> Result<(), KeeperError> {
        let found = self.records.read_all().map_err(KeeperError::Records)?;
        for error in found.errors {
            tell!("keeper: {}; it is ignored", chain(&error));
        }
        let now = now();
        for record in found.records {
            self.take_over(record, now);
        }
        // One that ran out while no keeper was there is due in the first turn.
        for lease in found.leases {
            self.custody.set_lease(&lease, Some(lease.until));
        }
        self.kill_orphans(now);
        // Our own children where this process was another keeper before (`upgrade`).
        self.reap();
        Ok(())
    }

    fn take_over(&mut self, record: Record, now: Now) {
        let Record {
            key,
            cgroup,
            fifos,
            state,
        } = record;
        let phase = match state {
            RecordState::Acknowledged => {
                let effects = self.custody.raise_floor(&key);
                return self.execute(effects, now);
            }
            RecordState::Ended(outcome) => Phase::Ended(outcome),
            RecordState::Running(running) => Phase::Running(running),
            RecordState::Ending(ending) => Phase::Ending(ending),
            RecordState::Starting => Phase::Starting {
                pid: 0,
                deadline: BootNanos(u64::MAX),
                cause: ExitCause::OwnAccord,
            },
        };
        let streams = self.reopen(&key, &fifos);
        let mut handles = self.new_handles(&key);
        handles.streams = streams;
        handles.oom_kills_at_start = self
            .base
            .task(&cgroup)
            .ok()
            .and_then(|cgroup| cgroup.oom_kills());
        self.handles.insert(key.clone(), handles);
        let effects = self.custody.insert(
            &key,
            Run {
                cgroup,
                fifos,
                phase: phase.clone(),
            },
        );
        self.execute(effects, now);
        match phase {
            Phase::Running(running) => self.take_over_running(&key, running, now),
            Phase::Starting { .. } => {
                let failure = SpawnFailure {
                    step_index: None,
                    step: "be started by a keeper that lived to see it".to_owned(),
                    errno: 0,
                    at: now.wall,
                };
                let effects = self.custody.on_start_failed(&key, failure);
                self.execute(effects, now);
                self.main_is_gone(&key, now);
            }
            Phase::Ending(_) => {
                let effects = self.custody.resume_ending(&key, self.tree_of(&key));
                self.execute(effects, now);
            }
            Phase::Failing { .. } | Phase::Ended(_) => {}
        }
    }

    fn take_over_running(&mut self, key: &TaskKey, running: Running, now: Now) {
        let Some(pidfd) = process::open_same(running.pid, running.start_time_ticks) else {
            return self.main_is_gone(key, now);
        };
        let Some(handles) = self.handles.get_mut(key) else {
            return;
        };
        if let Ok(own) = i32::try_from(running.pid)
            && process::is_own_child(pidfd.as_fd())
        {
            self.by_pid.insert(own, key.clone());
            handles.pidfd = Some(pidfd);
            return;
        }
        let token = EventData::new_u64(handles.number * 4 + Watch::Adopted as u64);
        match epoll::add(&self.epoll, pidfd.as_fd(), token, EventFlags::IN) {
            Ok(()) => handles.pidfd = Some(pidfd),
            Err(errno) => {
                tell!("keeper: {key}: its process cannot be polled: {errno}; its cgroup is");
                self.watch_tree(key);
            }
        }
    }

    fn main_is_gone(&mut self, key: &TaskKey, now: Now) {
        let tree = self.tree_of(key);
        let (status, oom) = (ExitStatus::Unknown, OomKill::NotMeasured);
        let effects = self.custody.on_main_exit(key, status, oom, tree, now);
        self.execute(effects, now);
    }

    fn tree_of(&self, key: &TaskKey) -> Tree {
        self.custody.run(key).map_or(Tree::Empty, |run| {
            self.base
                .task(&run.cgroup)
                .and_then(|cgroup| cgroup.tree())
                .unwrap_or(Tree::Empty)
        })
    }

    fn reopen(&self, key: &TaskKey, fifos: &[String]) -> Vec<OwnedFd> {
        let mut streams = Vec::new();
        for name in fifos {
            match open_fifo(self.io_directory.as_fd(), name, Waiting::Blocking) {
                Ok(fifo) => streams.push(fifo),
                Err(errno) => tell!("keeper: {key}: FIFO {name} cannot be opened: {errno}"),
            }
        }
        streams
    }
}
