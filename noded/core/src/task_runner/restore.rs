//! What becomes of a task when the daemon starts again: the journal says what was wanted, keeper
//! says what runs.
//!
//! ```text
//! journal \ keeper  starting, running, ending  exited, never started  nothing   another boot
//! dead              kill                       let go                 dead      dead
//! no attempt open   kill                       let go                 start     start
//! waits a delay     kill                       let go                 the rest  start
//! not seen to start go on                      take its end           start     start
//! running           go on                      take its end           unknown   start, unblamed
//! ```
//!
//! *go on* asks for the end of a run once more that an operator wants restarted, where keeper was
//! not told of that. *start* waits for its lifecycle stage, *unknown* is an end with "exit status
//! unknown", which the restart policy counts as a failure.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol_model::{AllocId, TaskEventKind, TaskRunState};

use super::{AfterStop, AttemptState, PersistedTask, Phase, RunContext, TaskRunner, history};
use crate::effect::Effect;
use crate::event::{Exit, ExitStatus, KeptPhase, RunEvent};
use crate::key::{RunEpoch, RunKey};
use crate::outbox::Outbox;
use crate::time::Now;

/// Whether the host was restarted since the boot that the journal speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boot {
    /// It was not: keeper knows what runs.
    Same,
    /// It was: nothing runs.
    Another,
}

/// What an earlier daemon left of a task's newest attempt.
#[derive(Debug)]
pub(crate) struct LeftBehind {
    /// Whether it may still be alive.
    pub(crate) attempt: AttemptState,
    /// What comes after its end, where it was asked to end.
    pub(crate) stopping: Option<AfterStop>,
    /// Keeper's runs of this task.
    pub(crate) kept: Vec<(RunEpoch, KeptPhase)>,
}

impl TaskRunner {
    /// The task as the journal left it, without looking at what runs.
    pub(crate) fn from_persisted(alloc: AllocId, name: &str, persisted: PersistedTask) -> Self {
        let PersistedTask {
            epoch,
            attempt: _,
            state,
            restarts,
            prepared,
            fetched,
            delayed_until,
            stopping: _,
        } = persisted;
        let phase = match (state.state, delayed_until) {
            (TaskRunState::Dead, _) => Phase::Dead,
            (TaskRunState::Pending, Some(until)) => Phase::Delayed { until },
            (TaskRunState::Pending | TaskRunState::Running, _) => Phase::Waiting,
        };
        Self {
            alloc,
            name: name.to_owned(),
            epoch,
            state,
            restarts,
            prepared,
            fetched,
            phase,
            strays: BTreeSet::new(),
            templates: super::templates::Follower::default(),
        }
    }

    /// Takes up what runs, as the table above says. What another boot means for the task is
    /// recorded, so that it is not asked again once the journal speaks of this boot.
    pub(crate) fn resume(
        &mut self,
        left: LeftBehind,
        boot: Boot,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        self.take_up(left, boot, ctx, out, now);
        if boot == Boot::Another && self.phase != Phase::Dead {
            self.persist(out);
        }
    }

    fn take_up(
        &mut self,
        left: LeftBehind,
        boot: Boot,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let LeftBehind {
            attempt,
            stopping,
            kept,
        } = left;
        let newest = self.epoch;
        if boot == Boot::Another {
            // Its clock began anew: neither the delay nor the interval means anything any more.
            self.restarts.forget_interval();
            if let Phase::Delayed { .. } = self.phase {
                self.phase = Phase::Waiting;
            }
        }
        // A run above the journal's newest means that the journal lost something: trust none of
        // them.
        let open = attempt == AttemptState::Open
            && self.phase != Phase::Dead
            && kept.iter().all(|(epoch, _)| *epoch <= newest);
        let mut expected = None;
        for (epoch, phase) in kept {
            if open && epoch == newest {
                expected = Some(phase);
            } else {
                self.take_stray(epoch, &phase, out);
            }
        }
        if attempt == AttemptState::Over || self.phase == Phase::Dead {
            return;
        }
        match expected {
            Some(phase) => self.resume_kept(phase, stopping, ctx, out, now),
            None => self.resume_lost(boot, stopping, ctx, out, now),
        }
    }

    fn resume_kept(
        &mut self,
        phase: KeptPhase,
        wish: Option<AfterStop>,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let epoch = self.epoch;
        match phase {
            KeptPhase::Starting => self.phase = Phase::Starting { stop: None },
            KeptPhase::Running { pid, at, stopping } => {
                let restored = self.state.state == TaskRunState::Running;
                if restored {
                    self.note(history::event(
                        TaskEventKind::Restored,
                        "The daemon found the task again after its own restart",
                        now.wall,
                    ));
                } else {
                    self.on_started(pid, at, None, ctx, out, now);
                }
                self.resume_running(stopping, wish, ctx, out, now);
                if restored {
                    // The line is not repeated by the next daemon.
                    self.persist(out);
                }
                if restored && self.phase == Phase::Running {
                    self.follow_identities(ctx, out);
                    self.follow_templates(ctx, out);
                }
            }
            KeptPhase::Ending => {
                self.phase = wish.map_or(Phase::Running, |after| Phase::Stopping { after });
            }
            KeptPhase::StartFailed { message } => {
                self.phase = Phase::Starting { stop: None };
                let recovery = crate::event::Recovery::Possible;
                let event = RunEvent::StartFailed { message, recovery };
                self.on_run_event(epoch, event, ctx, out, now);
            }
            KeptPhase::Exited(exit) => {
                self.phase = Phase::Running;
                self.on_exited(&exit, wish, ctx, out, now);
            }
        }
    }

    /// Keeper runs it. `stopping` is whether it was told to end it.
    fn resume_running(
        &mut self,
        stopping: bool,
        wish: Option<AfterStop>,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        match (stopping, wish) {
            (true, wish) => {
                let after = wish.unwrap_or(AfterStop::Restart);
                self.phase = Phase::Stopping { after };
            }
            // An operator was told that it will be, and does not say so again.
            (false, Some(AfterStop::Restart)) => {
                self.begin_stop(AfterStop::Restart, ctx, out, now);
            }
            // Whoever wanted its end does.
            (false, Some(AfterStop::Die(_)) | None) => self.phase = Phase::Running,
        }
    }

    fn resume_lost(
        &mut self,
        boot: Boot,
        wish: Option<AfterStop>,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        match (boot, self.state.state) {
            (Boot::Another, _) => {
                self.run_again(Duration::ZERO, "The host was restarted", now);
                // Before the run is let go.
                self.persist(out);
                out.push(Effect::ReleaseRun { run: self.run() });
            }
            (Boot::Same, TaskRunState::Running) => {
                let status = ExitStatus::Unknown;
                let exit = Exit {
                    status,
                    oom_killed: false,
                    signal_discarded: false,
                    lease_expired: false,
                    at: now.wall,
                };
                self.on_exited(&exit, wish, ctx, out, now);
            }
            // It was never seen to start and keeper does not have it: another attempt, another
            // epoch.
            (Boot::Same, TaskRunState::Pending | TaskRunState::Dead) => {
                self.persist(out);
                out.push(Effect::ReleaseRun { run: self.run() });
            }
        }
    }

    /// A run that nobody expects: ended ones are let go, live ones are killed and waited for.
    fn take_stray(&mut self, epoch: RunEpoch, phase: &KeptPhase, out: &mut Outbox) {
        self.epoch = self.epoch.max(epoch);
        let run = RunKey::new(self.alloc, self.name.clone(), epoch);
        match phase {
            KeptPhase::Exited(_) | KeptPhase::StartFailed { .. } => {
                out.push(Effect::ReleaseRun { run });
            }
            KeptPhase::Starting | KeptPhase::Running { .. } | KeptPhase::Ending => {
                self.strays.insert(epoch);
                out.push(Effect::KillTask { run });
            }
        }
    }

    /// An event of a run that is not the newest: it changes nothing, its end is let go.
    pub(super) fn on_stray(&mut self, epoch: RunEpoch, event: &RunEvent, out: &mut Outbox) {
        let run = RunKey::new(self.alloc, self.name.clone(), epoch);
        match event {
            RunEvent::Exited(_) | RunEvent::StartFailed { .. } => {
                self.strays.remove(&epoch);
                out.push(Effect::ReleaseRun { run });
            }
            RunEvent::Started { .. } => {
                // Keeper refused to kill it while it was starting.
                if self.strays.contains(&epoch) {
                    out.push(Effect::KillTask { run });
                }
            }
            RunEvent::Prepared { .. }
            | RunEvent::PrepareFailed { .. }
            | RunEvent::TemplatesChanged { .. }
            | RunEvent::TemplatesRendered { .. }
            | RunEvent::ScriptEnded { .. }
            | RunEvent::IdentitiesRenewed { .. }
            | RunEvent::Fetched { .. }
            | RunEvent::Progress { .. }
            | RunEvent::Message { .. } => {}
        }
    }
}
