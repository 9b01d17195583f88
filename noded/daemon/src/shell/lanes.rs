//! Lanes of allocations: the effects of one run one after the other, those of different ones side
//! by side.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use noded_core::{Effect, Event, Moment};
use protocol_model::AllocId;
use tokio::sync::mpsc;

use crate::hands::Hands;
use crate::input::Input;
use crate::lane;

/// Allocations with an effect under way, and what waits behind it.
#[derive(Debug)]
pub(super) struct Lanes {
    hands: Arc<dyn Hands>,
    inputs: mpsc::Sender<Input>,
    waiting: BTreeMap<AllocId, VecDeque<Effect>>,
}

impl Lanes {
    pub(super) fn new(hands: Arc<dyn Hands>, inputs: mpsc::Sender<Input>) -> Self {
        Self {
            hands,
            inputs,
            waiting: BTreeMap::new(),
        }
    }

    /// Begins an effect, or puts it behind those of the same allocation.
    pub(super) fn enqueue(&mut self, alloc: AllocId, effect: Effect) {
        if let Some(waiting) = self.waiting.get_mut(&alloc) {
            waiting.push_back(effect);
            return;
        }
        self.waiting.insert(alloc, VecDeque::new());
        self.begin(alloc, effect);
    }

    /// The effect that was under way is done: the next one.
    pub(super) fn done(&mut self, alloc: AllocId) {
        let waiting = self.waiting.get_mut(&alloc);
        match waiting.and_then(VecDeque::pop_front) {
            Some(effect) => self.begin(alloc, effect),
            None => {
                self.waiting.remove(&alloc);
            }
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

    fn begin(&self, alloc: AllocId, effect: Effect) {
        let hands = Arc::clone(&self.hands);
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let run = |effect| Arc::clone(&hands).carry_out(effect);
            for event in lane::carry_out(effect, lane::AGAIN, run).await {
                // A loop that ended no longer wants to know.
                let _ = inputs.send(Input::Event(event)).await;
            }
            let _ = inputs.send(Input::LaneDone(alloc)).await;
        });
    }
}
