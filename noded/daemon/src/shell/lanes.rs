//! Carrying out the effects of allocations, in the order that [`noded_core::lanes`] says.

use std::collections::BTreeMap;
use std::sync::Arc;

use noded_core::effect::{Lane, TaskHook};
use noded_core::event::{Recovery, RunEvent};
use noded_core::lanes::{self, LaneStep};
use noded_core::{Effect, Event, Moment, RunKey};
use protocol_model::AllocId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::hands::Hands;
use crate::input::Input;
use crate::lane;

/// Effects under way, and what waits behind them.
#[derive(Debug)]
pub(super) struct Lanes {
    hands: Arc<dyn Hands>,
    inputs: mpsc::Sender<Input>,
    order: lanes::Lanes,
    /// Of the preparations and renderings that are under way.
    cancels: BTreeMap<RunKey, CancellationToken>,
}

impl Lanes {
    pub(super) fn new(hands: Arc<dyn Hands>, inputs: mpsc::Sender<Input>) -> Self {
        Self {
            hands,
            inputs,
            order: lanes::Lanes::default(),
            cancels: BTreeMap::new(),
        }
    }

    /// Begins an effect, or puts it behind those of the same lane.
    pub(super) fn enqueue(&mut self, effect: Effect) {
        if let Some(step) = self.order.enqueue(effect) {
            self.take(step);
        }
    }

    /// The effect that was under way is done: the next one.
    pub(super) fn done(&mut self, lane: &Lane, interruptible: Option<&RunKey>) {
        if let Some(run) = interruptible {
            self.cancels.remove(run);
        }
        for step in self.order.done(lane) {
            self.take(step);
        }
    }

    /// Leases are no allocation's: the core asks for nothing more about them before the answer.
    pub(super) fn tend_leases(&self, extend: Vec<(AllocId, Moment)>, end: Vec<AllocId>) {
        let hands = Arc::clone(&self.hands);
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            if let Some(answer) = hands.tend_leases(extend, end).await {
                // A loop that ended no longer wants to know.
                let _ = inputs.send(Input::Event(Event::Leases(answer))).await;
            }
        });
    }

    fn take(&mut self, step: LaneStep) {
        match step {
            LaneStep::Begin(effect) => self.begin(effect),
            LaneStep::Interrupt(run) => {
                if let Some(cancel) = self.cancels.get(&run) {
                    cancel.cancel();
                }
            }
            LaneStep::Cancelled(run) => {
                let inputs = self.inputs.clone();
                tokio::spawn(async move {
                    let event = cancelled(TaskHook::Validate);
                    // A loop that ended no longer wants to know.
                    let _ = inputs.send(Input::Event(Event::Run { run, event })).await;
                });
            }
        }
    }

    fn begin(&mut self, effect: Effect) {
        let cancel = CancellationToken::new();
        let interruptible = match &effect {
            Effect::PrepareTask(prepare)
            | Effect::FollowTemplates(prepare)
            | Effect::RenderTemplates(prepare) => {
                let run = prepare.run.clone();
                self.cancels.insert(run.clone(), cancel.clone());
                Some(run)
            }
            _ => None,
        };
        let hands = Arc::clone(&self.hands);
        let inputs = self.inputs.clone();
        let lane = effect.lane();
        tokio::spawn(async move {
            let run = |effect| Arc::clone(&hands).carry_out(effect, cancel.clone());
            for event in lane::carry_out(effect, lane::AGAIN, run).await {
                // A loop that ended no longer wants to know.
                let _ = inputs.send(Input::Event(event)).await;
            }
            let done = Input::LaneDone {
                lane,
                interruptible,
            };
            let _ = inputs.send(done).await;
        });
    }
}

/// The answer to a preparation that was interrupted, in or before `hook`.
pub(crate) fn cancelled(hook: TaskHook) -> RunEvent {
    RunEvent::PrepareFailed {
        hook,
        message: "the task is to end".to_owned(),
        recovery: Recovery::Cancelled,
    }
}
