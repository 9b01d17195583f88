//! What keeper knows about every run, and what it must do next. Pure: the shell tells what happened
//! and executes the effects.
//!
//! ```text
//!            program runs            main process ended
//!  Starting -------------> Running ----------------------+
//!     |                      | kill deadline:            v       cgroup empty,
//!     | a step failed, or    +--> cgroup.kill          Ending ----------------> Ended
//!     | the start deadline                               ^     or waited enough   |
//!     v                                                  |                        v
//!  Failing (cgroup.kill) ---- main process ended --------+          Acknowledge: floor
//! ```
//!
//! A run whose cgroup is empty when its main process ends goes to Ended at once. Every outcome
//! stays until it is acknowledged; after that only the task's highest run epoch is kept, so that a
//! late request cannot start the same run again.

mod effect;
mod floors;
mod leased;
mod leases;
mod requests;
mod run;

use crate::protocol::{
    BootNanos, Event, Exit, ExitCause, ExitStatus, OomKill, Remains, SpawnFailure, TaskKey,
    TaskReport,
};
use std::collections::BTreeMap;

pub(crate) use effect::Effect;
pub(crate) use floors::FLOORS_MAX;
use floors::Floors;
use leases::Leases;
pub(crate) use leases::{Held, LEASES_MAX, Recording};
pub(crate) use run::{Delivery, Ending, Now, Outcome, Phase, Run, Running, Tree};

/// Runs known at once, ended ones included. Three descriptors each must fit the process's limit,
/// and `List` its memory.
pub(crate) const RUNS_MAX: usize = 16 * 1024;

/// How long the rest of a cgroup may take to end after cgroup.kill before the exit is reported
/// without it.
pub(crate) const ENDING_MAX: BootNanos = BootNanos(5_000_000_000);

/// The table of runs.
#[derive(Debug)]
pub(crate) struct Custody {
    runs_max: usize,
    runs: BTreeMap<TaskKey, Run>,
    floors: Floors,
    leases: Leases,
}

impl Custody {
    /// Refuses more than `runs_max` runs at once.
    pub(crate) fn new(runs_max: usize) -> Self {
        Self {
            runs_max,
            runs: BTreeMap::new(),
            floors: Floors::default(),
            leases: Leases::default(),
        }
    }

    /// The child exists; its program is not executed yet.
    pub(crate) fn on_spawned(
        &mut self,
        key: &TaskKey,
        cgroup: String,
        fifos: Vec<String>,
        pid: u32,
        deadline: BootNanos,
    ) -> Vec<Effect> {
        let phase = Phase::Starting {
            pid,
            deadline,
            cause: ExitCause::OwnAccord,
        };
        self.insert(
            key,
            Run {
                cgroup,
                fifos,
                phase,
            },
        )
    }

    /// Takes over a run from a record of an earlier keeper.
    pub(crate) fn insert(&mut self, key: &TaskKey, run: Run) -> Vec<Effect> {
        self.runs.insert(key.clone(), run);
        self.raise_floor(key)
    }

    /// Takes over an epoch whose outcome was acknowledged.
    pub(crate) fn raise_floor(&mut self, key: &TaskKey) -> Vec<Effect> {
        let gone = self.floors.raise(key);
        self.records_of_none(gone)
    }

    pub(crate) fn on_program_running(
        &mut self,
        key: &TaskKey,
        start_time_ticks: u64,
        now: Now,
    ) -> Vec<Effect> {
        let Some(Run { phase, .. }) = self.runs.get_mut(key) else {
            return Vec::new();
        };
        let Phase::Starting { pid, cause, .. } = *phase else {
            return Vec::new();
        };
        let started_at = now.wall;
        *phase = Phase::Running(Running {
            pid,
            start_time_ticks,
            started_at,
            kill_at: None,
            cause,
        });
        let event = Event::Started {
            key: key.clone(),
            pid,
            at: started_at,
        };
        vec![Effect::Persist(key.clone()), Effect::Send(event)]
    }

    pub(crate) fn on_start_failed(&mut self, key: &TaskKey, failure: SpawnFailure) -> Vec<Effect> {
        let Some(Run { phase, .. }) = self.runs.get_mut(key) else {
            return Vec::new();
        };
        let Phase::Starting { pid, .. } = *phase else {
            return Vec::new();
        };
        *phase = Phase::Failing { pid, failure };
        vec![Effect::KillTree(key.clone())]
    }

    /// The main process ended and was reaped (or is known to be gone).
    pub(crate) fn on_main_exit(
        &mut self,
        key: &TaskKey,
        status: ExitStatus,
        oom: OomKill,
        tree: Tree,
        now: Now,
    ) -> Vec<Effect> {
        let Some(Run { phase, .. }) = self.runs.get_mut(key) else {
            return Vec::new();
        };
        let exited = |cause| {
            Outcome::Exited(Exit {
                status,
                oom,
                cause,
                remains: Remains::None,
                at: now.wall,
            })
        };
        let (pid, outcome) = match phase {
            Phase::Starting { pid, cause, .. } => (*pid, exited(*cause)),
            Phase::Running(running) => (running.pid, exited(running.cause)),
            Phase::Failing { pid, failure } => (*pid, Outcome::SpawnFailed(failure.clone())),
            Phase::Ending(_) | Phase::Ended(_) => return Vec::new(),
        };
        match tree {
            Tree::Empty => self.end(key, outcome),
            Tree::Populated => {
                let deadline = now.boot.plus(ENDING_MAX);
                *phase = Phase::Ending(Ending {
                    pid,
                    outcome,
                    deadline,
                });
                // On record first: the kernel tells the status of a process only once.
                let record = Effect::Persist(key.clone());
                [vec![record], end_rest(key)].concat()
            }
        }
    }

    /// A keeper before this one saw the main process end, and not the rest.
    pub(crate) fn resume_ending(&mut self, key: &TaskKey, tree: Tree) -> Vec<Effect> {
        match tree {
            Tree::Empty => self.on_tree_empty(key),
            Tree::Populated => end_rest(key),
        }
    }

    /// A run without a record was inserted as ending: it is put on record, and its rest killed.
    pub(crate) fn adopt_orphan(&mut self, key: &TaskKey, tree: Tree) -> Vec<Effect> {
        let record = Effect::Persist(key.clone());
        [vec![record], self.resume_ending(key, tree)].concat()
    }

    /// The cgroup of a run that is ending became empty.
    pub(crate) fn on_tree_empty(&mut self, key: &TaskKey) -> Vec<Effect> {
        self.end_with_remains(key, Remains::Killed)
    }

    /// Does what is due.
    pub(crate) fn on_time(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = self.expire_leases(now);
        let due: Vec<TaskKey> = self
            .runs
            .iter()
            .filter(|(_, run)| run.deadline().is_some_and(|deadline| deadline <= now.boot))
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            effects.extend(self.on_deadline(&key, now));
        }
        effects
    }

    /// When [`Custody::on_time`] is to be called next.
    pub(crate) fn next_deadline(&self) -> Option<BootNanos> {
        let of_runs = self.runs.values().filter_map(Run::deadline).min();
        of_runs.into_iter().chain(self.leases.next_deadline()).min()
    }

    /// For the keeper after this one; the order is part of it.
    pub(crate) fn floors(&self) -> impl Iterator<Item = TaskKey> {
        self.floors.in_order()
    }

    pub(crate) fn run(&self, key: &TaskKey) -> Option<&Run> {
        self.runs.get(key)
    }

    /// Whether this run is known, or its end was acknowledged, or a later run of its task began.
    pub(crate) fn is_past(&self, key: &TaskKey) -> bool {
        let highest = self.floors.highest(key.owner());
        highest.is_some_and(|highest| key.run_epoch() <= highest)
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = (&TaskKey, &Run)> {
        self.runs.iter()
    }

    pub(crate) fn run_count(&self) -> u32 {
        u32::try_from(self.runs.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn reports(&self) -> impl Iterator<Item = TaskReport> + '_ {
        self.runs.iter().map(|(key, run)| TaskReport {
            key: key.clone(),
            cgroup: run.cgroup.clone(),
            phase: run.phase.report(),
        })
    }

    fn on_deadline(&mut self, key: &TaskKey, now: Now) -> Vec<Effect> {
        let Some(Run { phase, .. }) = self.runs.get_mut(key) else {
            return Vec::new();
        };
        match phase {
            Phase::Starting { .. } => {
                let failure = SpawnFailure {
                    step_index: None,
                    step: "reach exec before the start deadline".to_owned(),
                    errno: 0,
                    at: now.wall,
                };
                self.on_start_failed(key, failure)
            }
            Phase::Running(running) => {
                running.kill_at = None;
                running.cause = ExitCause::KillDeadline;
                vec![Effect::KillTree(key.clone())]
            }
            Phase::Ending(_) => self.end_with_remains(key, Remains::Surviving),
            Phase::Failing { .. } | Phase::Ended(_) => Vec::new(),
        }
    }

    fn end_with_remains(&mut self, key: &TaskKey, remains: Remains) -> Vec<Effect> {
        let Some(Run {
            phase: Phase::Ending(Ending { outcome, .. }),
            ..
        }) = self.runs.get(key)
        else {
            return Vec::new();
        };
        let outcome = match outcome {
            Outcome::Exited(exit) => Outcome::Exited(Exit { remains, ..*exit }),
            Outcome::SpawnFailed(failure) => Outcome::SpawnFailed(failure.clone()),
        };
        self.end(key, outcome)
    }

    fn end(&mut self, key: &TaskKey, outcome: Outcome) -> Vec<Effect> {
        let Some(run) = self.runs.get_mut(key) else {
            return Vec::new();
        };
        run.phase = Phase::Ended(outcome.clone());
        let key = key.clone();
        let event = match outcome {
            Outcome::SpawnFailed(failure) => Event::SpawnFailed {
                key: key.clone(),
                failure,
            },
            Outcome::Exited(exit) => Event::Exited {
                key: key.clone(),
                exit,
            },
        };
        // On record before it is told: an acknowledged outcome must not come back.
        vec![
            Effect::Persist(key.clone()),
            Effect::Settle(key),
            Effect::Send(event),
        ]
    }

    /// Floors are gone; where no run needs their records either, those go too.
    fn records_of_none(&self, floors: impl IntoIterator<Item = TaskKey>) -> Vec<Effect> {
        floors
            .into_iter()
            .filter(|key| !self.runs.contains_key(key))
            .map(Effect::RemoveRecord)
            .collect()
    }
}

/// What brings the end of a run whose main process is gone.
fn end_rest(key: &TaskKey) -> Vec<Effect> {
    vec![
        Effect::WatchTree(key.clone()),
        Effect::KillTree(key.clone()),
    ]
}

#[cfg(test)]
mod tests;
