//! The loop around the core: effects out, as far as the journal allows. The order and the rules of
//! holding back are those of the daemon's `shell.rs`.

use noded_core::effect::{AllocHook, Lane, SessionMessage, TaskHook, UpdateClass};
use noded_core::event::{AllocEvent, Recovery, RunEvent};
use noded_core::journal::JournalRecord;
use noded_core::lanes::LaneStep;
use noded_core::{AllocResources, Durability, Effect, Event as CoreEvent, Issued, Watermark};
use std::collections::BTreeMap;

use super::{Held, keeper};
use crate::event::{Event, NodeInput, NodeIx};
use crate::invariants::Observation;
use crate::mutant::Mutant;
use crate::time::{MICRO, MILLI, SECOND};
use crate::world::World;

/// How often a full disk is tried again (as the daemon).
const JOURNAL_RETRY: u64 = SECOND;

impl World {
    /// Executes, or holds back, everything that the core asks for, and asks to be woken.
    pub(crate) fn drain(&mut self, ix: NodeIx) {
        let mut sync = false;
        loop {
            let node = &mut self.nodes[ix as usize];
            let Some(core) = &mut node.core else {
                return;
            };
            let Some(Issued { needs, effect }) = core.poll_effect() else {
                break;
            };
            if let Effect::Append(record) = effect {
                let moved = watermark(&record);
                if self.nodes[ix as usize].journal.append(record) {
                    self.observe_watermark(ix, moved);
                }
                continue;
            }
            if let Effect::Disconnect { attempt, .. } = effect {
                node.held
                    .retain(|held| held.effect.attempt() != Some(attempt));
                self.execute(ix, effect);
                continue;
            }
            let lane = effect.lane();
            let record = node.journal.issued();
            let blocked = node.held.iter().any(|held| held.lane == lane);
            let needs = if self.mutant == Some(Mutant::NoSync) {
                needs.min(Durability::Appended)
            } else {
                needs
            };
            if !blocked && is_safe(needs, record, node.journal.progress()) {
                self.execute(ix, effect);
                continue;
            }
            sync |= needs == Durability::Synced;
            if let (Some((class, seq)), Some(core)) = (batch_of(&effect), &mut node.core) {
                core.on_batch_held(class, seq);
            }
            node.held.push_back(Held {
                needs,
                record,
                lane,
                effect,
            });
        }
        if sync {
            self.request_sync(ix);
        }
        self.tend_journal(ix);
        self.arm(ix);
    }

    /// A watermark is in the journal's file.
    fn observe_watermark(&mut self, node: NodeIx, watermark: Option<Watermark>) {
        if let Some(watermark) = watermark {
            self.observe(Observation::WatermarkMoved { node, watermark });
        }
    }

    fn arm(&mut self, ix: NodeIx) {
        let now = self.now;
        let node = &mut self.nodes[ix as usize];
        let Some(due) = node.core.as_ref().and_then(|core| core.poll_timeout()) else {
            return;
        };
        let wait = due.since(node.now(now).moment);
        let at = now.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        if node.armed.is_none_or(|armed| at < armed) {
            node.armed = Some(at);
            let life = node.life;
            self.queue.push(at, Event::NodeTimer { node: ix, life });
        }
    }

    fn tend_journal(&mut self, ix: NodeIx) {
        let node = &mut self.nodes[ix as usize];
        if node.journal.arm_retry() {
            self.node_input(ix, JOURNAL_RETRY, NodeInput::JournalRetry);
            return;
        }
        if node.journal.wants_compaction()
            && let Some(core) = &node.core
        {
            let records = core.journal_snapshot();
            let moved = core.watermark();
            node.journal.replace(records);
            for held in &mut node.held {
                held.record = 0;
            }
            self.observe_watermark(ix, Some(moved));
            self.release_held(ix);
        }
    }

    fn request_sync(&mut self, ix: NodeIx) {
        let slow = self.nodes[ix as usize].journal.slow;
        let takes = self.rng.between(200 * MICRO, 5 * MILLI) + self.rng.below(slow);
        if let Some((count, file)) = self.nodes[ix as usize].journal.request_sync() {
            self.node_input(ix, takes, NodeInput::Synced { count, file });
        }
    }

    pub(super) fn retry_journal(&mut self, ix: NodeIx) {
        let written = self.nodes[ix as usize].journal.retry();
        let moved = written.iter().rev().find_map(watermark);
        self.observe_watermark(ix, moved);
        self.request_sync(ix);
        self.release_held(ix);
    }

    /// Executes what the journal is far enough for, lane by lane in order.
    pub(super) fn release_held(&mut self, ix: NodeIx) {
        let trusts_the_file = self.mutant == Some(Mutant::NoSync);
        let node = &mut self.nodes[ix as usize];
        if let Some(core) = &mut node.core
            && let Some(durable) = node.journal.durable(trusts_the_file).find_map(watermark)
        {
            core.on_durable(durable);
        }
        let progress = node.journal.progress();
        let mut sync = node.journal.take_wanted();
        let mut blocked: Vec<Lane> = Vec::new();
        let mut ready = Vec::new();
        for held in std::mem::take(&mut node.held) {
            if is_safe(held.needs, held.record, progress) && !blocked.contains(&held.lane) {
                ready.push(held.effect);
            } else {
                sync |= held.needs == Durability::Synced;
                blocked.push(held.lane.clone());
                node.held.push_back(held);
            }
        }
        for effect in ready {
            let now = self.nodes[ix as usize].now(self.now);
            if let (Some((class, seq)), Some(core)) =
                (batch_of(&effect), &mut self.nodes[ix as usize].core)
            {
                core.on_batch_sent(class, seq, now);
            }
            self.execute(ix, effect);
        }
        if sync {
            self.request_sync(ix);
        }
    }

    fn execute(&mut self, ix: NodeIx, effect: Effect) {
        match effect {
            Effect::Connect { attempt, server } => {
                // What Hello names is on the disk by then, where the disk is well.
                self.request_sync(ix);
                self.connect(ix, attempt, server);
            }
            Effect::Disconnect { attempt, reason } => self.leave_server(ix, attempt, &reason),
            Effect::OpenWatch { attempt, known } => self.ask_for_watch(ix, attempt, known),
            Effect::Send { attempt, message } => self.send_message(ix, attempt, message),
            Effect::Append(_) => {}
            Effect::TendLeases { extend, end } => self.tend_leases(ix, extend, &end),
            effect => match effect.lane() {
                Lane::Alloc(_) | Lane::Task { .. } => {
                    let step = self.nodes[ix as usize].lanes.enqueue(effect);
                    self.take_steps(ix, step);
                }
                lane => self.unmodelled(&format!("an effect in lane {lane:?}")),
            },
        }
    }

    fn take_steps(&mut self, ix: NodeIx, steps: impl IntoIterator<Item = LaneStep>) {
        for step in steps {
            match step {
                LaneStep::Begin(effect) => {
                    let wait = self.rng.between(50 * MICRO, 8 * MILLI);
                    self.node_input(ix, wait, NodeInput::Act(Box::new(effect)));
                }
                LaneStep::Interrupt(run) => {
                    self.nodes[ix as usize].interrupted.insert(run);
                }
                LaneStep::Cancelled(run) => {
                    let event = cancelled(TaskHook::Validate);
                    self.node_input(ix, 20 * MICRO, NodeInput::Run { run, event });
                }
            }
        }
    }

    pub(super) fn lane_done(&mut self, ix: NodeIx, lane: &Lane) {
        let steps = self.nodes[ix as usize].lanes.done(lane);
        self.take_steps(ix, steps);
    }

    /// An effect of an allocation's lane is carried out.
    pub(super) fn act(&mut self, ix: NodeIx, effect: Effect) {
        let lane = effect.lane();
        if self.mutant == Some(Mutant::WaitsAfterReboot) && !self.nodes[ix as usize].told {
            return self.node_input(ix, SECOND / 2, NodeInput::Act(Box::new(effect)));
        }
        let luck = !self.rng.chance(10) || self.calm;
        let event = match effect {
            Effect::PrepareAlloc { spec, .. } => {
                let alloc = spec.id();
                let event = if luck {
                    AllocEvent::Prepared {
                        resources: AllocResources::default(),
                    }
                } else {
                    let message = "no room".to_owned();
                    AllocEvent::PrepareFailed {
                        hook: AllocHook::Directory,
                        message,
                    }
                };
                Some(CoreEvent::Alloc { alloc, event })
            }
            Effect::DestroyAlloc { alloc } => {
                let event = AllocEvent::Destroyed;
                Some(CoreEvent::Alloc { alloc, event })
            }
            Effect::PrepareTask(prepare) => {
                let late = self.nodes[ix as usize].interrupted.remove(&prepare.run);
                let event = match prepare.hooks.first() {
                    Some(hook) if late => cancelled(*hook),
                    Some(hook) if !luck => RunEvent::PrepareFailed {
                        hook: *hook,
                        message: "no room".to_owned(),
                        recovery: Recovery::Possible,
                    },
                    _ => RunEvent::Prepared {
                        environment: BTreeMap::new(),
                    },
                };
                let run = prepare.run;
                Some(CoreEvent::Run { run, event })
            }
            Effect::StartTask(start) => {
                self.spawn(ix, &start.run);
                None
            }
            Effect::StopTask {
                run, kill_after, ..
            } => {
                self.stop_run(ix, &run, keeper::after(kill_after));
                None
            }
            Effect::KillTask { run } => {
                self.kill_run(ix, &run);
                None
            }
            Effect::ReleaseRun { run } => {
                self.nodes[ix as usize].keeper.release(&run);
                None
            }
            Effect::SignalTask { .. } | Effect::FollowTemplates(_) | Effect::RetireAlloc { .. } => {
                None
            }
            other => {
                self.unmodelled(&format!("{:?}", other.lane()));
                None
            }
        };
        let event = event.map(Box::new);
        self.node_input(ix, 20 * MICRO, NodeInput::LaneDone { lane, event });
    }
}

fn cancelled(hook: TaskHook) -> RunEvent {
    RunEvent::PrepareFailed {
        hook,
        message: "the task is to end".to_owned(),
        recovery: Recovery::Cancelled,
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

fn watermark(record: &JournalRecord) -> Option<Watermark> {
    match record {
        JournalRecord::Watermark { at } => Some(*at),
        _ => None,
    }
}

/// Whether the journal is far enough for an effect.
fn is_safe(needs: Durability, record: u64, (written, synced): (u64, u64)) -> bool {
    match needs {
        Durability::Nothing => true,
        Durability::Appended => written >= record,
        Durability::Synced => synced >= record,
    }
}
