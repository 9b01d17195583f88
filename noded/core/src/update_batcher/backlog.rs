//! What waits on a node for the control plane, for whoever asks.

use std::time::Duration;

use super::UpdateBatcher;
use crate::time::Moment;

/// Reports of allocations that wait to be sent, or for their acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// How many allocations have something to say that was not sent yet.
    pub waiting: usize,
    /// How many reports were sent and have no answer.
    pub in_flight: usize,
    /// How long the oldest of both has waited, since it was offered or had to be sent again.
    pub oldest: Duration,
    /// How often the clock went back: what waits then waits longer.
    pub clock_steps_back: u64,
}

impl UpdateBatcher {
    /// What waits at `now`.
    pub fn backlog(&self, now: Moment) -> Backlog {
        let heads = [self.urgent_queue.first(), self.typical_queue.first()];
        let heads = heads.into_iter().flatten().map(|(since, _)| *since);
        let channels = [&self.urgent, &self.typical];
        let in_flight = channels.map(|channel| channel.in_flight.as_ref());
        let in_flight = in_flight.into_iter().flatten();
        let oldest = heads.chain(in_flight.clone().map(|it| it.oldest)).min();
        Backlog {
            waiting: self.depth(),
            in_flight: in_flight.map(|it| it.items.len()).sum(),
            oldest: oldest.map_or(Duration::ZERO, |since| now.since(since)),
            clock_steps_back: self.clock_steps_back,
        }
    }

    /// How many allocations have something to say that was not sent yet.
    pub(crate) fn depth(&self) -> usize {
        self.urgent_queue.len() + self.typical_queue.len()
    }
}
