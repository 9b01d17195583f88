//! How an allocation's tasks are brought to their end: the reason, the wait, the waves.

use std::time::Duration;

use super::{AllocRunner, Preparation, World, kill_order};
use crate::lifecycle::Stage;
use crate::outbox::Outbox;
use crate::task_runner::{KillCause, ShutdownDelay};
use crate::time::{Moment, Now};

/// The allocation's tasks are being brought to their end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ending {
    pub(super) cause: KillCause,
    pub(super) begin: Begin,
}

/// When the first task is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Begin {
    /// After the group's `shutdown_delay`.
    At(Moment),
    /// It has begun.
    Begun,
}

impl AllocRunner {
    /// The reason to end its tasks, where there is one and none was found before.
    pub(super) fn find_ending(&mut self, now: Now) {
        if self.ending.is_some() || self.all_dead() {
            return;
        }
        let cause = if self.is_wanted_gone() {
            Some(KillCause::AllocStopped)
        } else if self.state.lease_expired {
            Some(KillCause::LeaseExpired)
        } else if matches!(self.preparation, Preparation::Failed { .. }) {
            Some(KillCause::PreparationFailed)
        } else {
            kill_order::cause(&self.members())
        };
        let Some(cause) = cause else { return };
        let delay = match self.shutdown_delay() {
            ShutdownDelay::Wait if self.has_process() => {
                self.spec.group().shutdown_delay.unwrap_or_default()
            }
            ShutdownDelay::Wait | ShutdownDelay::Skip => Duration::ZERO,
        };
        self.ending = Some(Ending {
            cause,
            begin: Begin::At(now.moment.after(delay)),
        });
    }

    /// Kills who is next: the lead task, then the others, then sidecars; poststop tasks never,
    /// except where the allocation's directories do not exist, and those that are not begun where
    /// the lease is over for good: they would wait for another one for ever.
    pub(super) fn kill_wave(&mut self, world: World<'_>, out: &mut Outbox, now: Now) {
        let delay = self.shutdown_delay();
        let Some(ending) = &mut self.ending else {
            return;
        };
        match ending.begin {
            // A wait that has begun is cut short, too.
            Begin::At(at) if now.moment < at && delay == ShutdownDelay::Wait => return,
            Begin::At(_) | Begin::Begun => ending.begin = Begin::Begun,
        }
        let cause = ending.cause;
        let mut wave = kill_order::next_wave(&self.members());
        if cause == KillCause::PreparationFailed {
            wave = self.tasks.keys().cloned().collect();
        } else if wave.is_empty() && self.state.lease_expired && self.awaits_lease() {
            let unbegun = self.tasks.iter().filter(|(_, task)| task.is_unbegun());
            wave = unbegun.map(|(name, _)| name.clone()).collect();
        }
        let Self {
            spec, tasks, state, ..
        } = self;
        for name in wave {
            if let Some(task) = tasks.get_mut(&name) {
                task.kill(
                    cause,
                    delay,
                    world.context(spec, &state.resources),
                    out,
                    now,
                );
            }
        }
    }

    /// Where nothing ever ran there is nothing to clean up after.
    pub(super) fn skip_poststop_of_nothing(
        &mut self,
        world: World<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let Some(Ending { cause, .. }) = self.ending.filter(|_| self.stage == Stage::Poststop)
        else {
            return;
        };
        if self
            .tasks
            .values()
            .any(|task| task.state().started_at.is_some())
        {
            return;
        }
        let Self {
            spec, tasks, state, ..
        } = self;
        for task in tasks.values_mut() {
            task.kill(
                cause,
                ShutdownDelay::Skip,
                world.context(spec, &state.resources),
                out,
                now,
            );
        }
    }

    /// What keeper allows for the end of a lease is the kill timeouts: a delay before the signal
    /// would take the place of the signal.
    pub(super) fn shutdown_delay(&self) -> ShutdownDelay {
        if self.state.lease_expired {
            return ShutdownDelay::Skip;
        }
        match self.spec.alloc().desired_transition.no_shutdown_delay {
            Some(true) => ShutdownDelay::Skip,
            Some(false) | None => ShutdownDelay::Wait,
        }
    }
}
