//! The loop around the core: effects out, as far as the journal allows. The order and the rules of
//! holding back are those of the daemon's `shell.rs`.

use std::collections::BTreeMap;

use noded_core::effect::{Lane, SessionMessage, UpdateClass};
use noded_core::event::{AllocEvent, ExitStatus, LeasesAnswer, RunEvent};
use noded_core::journal::JournalRecord;
use noded_core::{AllocResources, Durability, Effect, Event as CoreEvent, Issued};

use super::Held;
use crate::mutant::Mutant;
use crate::world::World;

/// The most that one input may lead to before something is wrong with the model.
const TURNS_MAX: usize = 10_000;

impl World {
    /// Everything that follows at once: effects, what the host answers, timers that are due.
    pub fn turn_host(&mut self) {
        for _ in 0..TURNS_MAX {
            self.drain();
            if let Some(event) = self.host.local.pop_front() {
                self.feed(event);
                continue;
            }
            let now = self.host.now();
            let Some(core) = &mut self.host.core else {
                return;
            };
            if core.poll_timeout().is_none_or(|due| due > now.moment) {
                self.tidy_conns();
                return;
            }
            core.on_timeout(now);
        }
        self.fail("the_model", "the daemon does not come to rest".to_owned());
    }

    pub(super) fn feed(&mut self, event: CoreEvent) {
        let now = self.host.now();
        if let Some(core) = &mut self.host.core {
            core.on_event(event, now);
        }
    }

    fn drain(&mut self) {
        while let Some(core) = &mut self.host.core
            && let Some(Issued { needs, effect }) = core.poll_effect()
        {
            if let Effect::Append(record) = effect {
                if let JournalRecord::Watermark { at } = &record {
                    self.watch_watermark(*at);
                }
                self.host.journal.append(record);
                continue;
            }
            let needs = if self.mutant == Some(Mutant::NoSync) {
                needs.min(Durability::Appended)
            } else {
                needs
            };
            let host = &mut self.host;
            if let Effect::Disconnect { attempt, .. } = effect {
                host.held
                    .retain(|held| held.effect.attempt() != Some(attempt));
                self.execute(effect);
                continue;
            }
            let lane = effect.lane();
            let record = host.journal.written();
            let blocked = host.held.iter().any(|held| held.lane == lane);
            let safe = needs < Durability::Synced || host.journal.on_disk() >= record;
            if safe && !blocked {
                self.execute(effect);
                continue;
            }
            if needs == Durability::Synced {
                host.journal.request_sync();
            }
            if let (Some((class, seq)), Some(core)) = (batch_of(&effect), &mut host.core) {
                core.on_batch_held(class, seq);
            }
            host.held.push_back(Held {
                needs,
                record,
                lane,
                effect,
            });
        }
    }

    /// Executes what the disk is far enough for, lane by lane in order.
    pub(super) fn release_held(&mut self) {
        let trusts_the_file = self.mutant == Some(Mutant::NoSync);
        let host = &mut self.host;
        if let Some(core) = &mut host.core
            && let Some(durable) = host.journal.watermark(trusts_the_file)
        {
            core.on_durable(durable);
        }
        let mut blocked: Vec<Lane> = Vec::new();
        let mut ready = Vec::new();
        for held in std::mem::take(&mut host.held) {
            let safe = held.needs < Durability::Synced || host.journal.on_disk() >= held.record;
            if safe && !blocked.contains(&held.lane) {
                ready.push(held.effect);
                continue;
            }
            if held.needs == Durability::Synced {
                host.journal.request_sync();
            }
            blocked.push(held.lane.clone());
            host.held.push_back(held);
        }
        for effect in ready {
            let now = self.host.now();
            if let (Some((class, seq)), Some(core)) = (batch_of(&effect), &mut self.host.core) {
                core.on_batch_sent(class, seq, now);
            }
            self.execute(effect);
        }
    }

    fn execute(&mut self, effect: Effect) {
        let at = self.host.wall();
        let local = match effect {
            Effect::Connect { attempt, server } => {
                // What Hello names is on the disk by then, where the disk is well.
                self.host.journal.request_sync();
                self.connect(attempt, server);
                return;
            }
            Effect::Disconnect { attempt, .. } => return self.drop_link(attempt),
            Effect::OpenWatch { attempt, known } => return self.ask_for_watch(attempt, known),
            Effect::Send { attempt, message } => return self.send_message(attempt, message),
            Effect::TendLeases { .. } => CoreEvent::Leases(LeasesAnswer::Done),
            Effect::PrepareAlloc { spec, .. } => CoreEvent::Alloc {
                alloc: spec.id(),
                event: AllocEvent::Prepared {
                    resources: AllocResources::default(),
                },
            },
            Effect::DestroyAlloc { alloc } => CoreEvent::Alloc {
                alloc,
                event: AllocEvent::Destroyed,
            },
            Effect::PrepareTask(prepare) => CoreEvent::Run {
                run: prepare.run,
                event: RunEvent::Prepared {
                    environment: BTreeMap::new(),
                },
            },
            Effect::StartTask(start) => {
                let run = start.run;
                self.watch_start(&run);
                let event = self.host.keeper.start(&run, at);
                CoreEvent::Run { run, event }
            }
            Effect::StopTask { run, .. } => self.end_run(run, ExitStatus::Code(0)),
            Effect::KillTask { run } => self.end_run(run, ExitStatus::Signal(9)),
            Effect::ReleaseRun { run } => return self.host.keeper.release(&run),
            // Its jobs have no templates that change.
            Effect::FollowTemplates(_)
            | Effect::RenderTemplates(_)
            | Effect::FollowIdentities(_)
            | Effect::RunChangeScript(_)
            | Effect::Append(_)
            | Effect::CancelPrepare { .. }
            | Effect::SignalTask { .. }
            | Effect::RetireAlloc { .. } => return,
        };
        self.host.local.push_back(local);
    }

    fn end_run(&mut self, run: noded_core::RunKey, status: ExitStatus) -> CoreEvent {
        self.watch_stop(&run);
        let at = self.host.wall();
        let event = self.host.keeper.end(&run, status, at);
        CoreEvent::Run { run, event }
    }
}

/// Which batch an effect sends, where it sends one.
fn batch_of(effect: &Effect) -> Option<(UpdateClass, u64)> {
    match effect {
        Effect::Send {
            message: SessionMessage::StatusBatch(batch),
            ..
        } => Some((batch.class, batch.seq)),
        _ => None,
    }
}
