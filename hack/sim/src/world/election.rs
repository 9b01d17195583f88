//! Who leads: majorities lost and found again, elections, and who hears of them.

use std::time::Duration;

use controlplane_state::SessionEpoch;
use protocol_model::NodeStatus;

use super::World;
use super::log::InFlight;
use crate::event::{Answer, Event, LogEvent, ServerEvent, ServerIx};
use crate::mutant::Mutant;
use crate::time::{MILLI, Nanos, SECOND, nanos};

/// How much later than it was elected a leader begins to look after nodes, at most.
const TAKES_OVER_WITHIN: Nanos = 3 * SECOND;
/// How long a node without a session may take to knock anew, and a detection period, and what a
/// leader takes to take over (as the leader's parts).
const KNOCK_AGAIN_MAX: Nanos = 63 * SECOND + TAKES_OVER_WITHIN;

impl World {
    /// A server that is killed leads no more, even if nobody could take its place.
    pub(crate) fn depose(&mut self, server: ServerIx) {
        if self.log.leader == Some(server) {
            self.lead_in_vain();
            self.log.leader = None;
            self.note_reach();
        }
    }

    /// Nobody leads with a majority from now on. Whoever did does not know it yet.
    fn lead_in_vain(&mut self) {
        if let (Some(leader), Some(_)) = (self.log.leader, self.log.since.take()) {
            self.servers[usize::from(leader)].quorum_at = Some(self.now);
        }
    }

    /// Something about who reaches whom changed: a leader without a majority will be replaced, one
    /// that has it goes on.
    pub(crate) fn look_at_leader(&mut self) {
        let Some(leader) = self.log.leader else {
            return self.stand_for_election();
        };
        if !self.has_majority(leader) {
            self.lead_in_vain();
            self.note_reach();
            return self.stand_for_election();
        }
        if self.log.since.is_none() {
            self.log.since = Some(self.now);
            self.note_reach();
            self.lead_anew(leader);
        }
        let term = self.log.term;
        self.queue
            .push(self.now, Event::Log(LogEvent::Commit { term }));
        self.spread();
        for server in 0..self.servers.len() {
            let ix = u8::try_from(server).unwrap_or(0);
            let lag = self.net.server_delay() + 20 * MILLI;
            self.learn_later(ix, lag);
        }
    }

    fn stand_for_election(&mut self) {
        if self.log.electing {
            return;
        }
        self.log.electing = true;
        // Election timeouts are 400 to 800 ms, and now and then a vote is split.
        let mut wait = self.log.rng.between(400 * MILLI, 900 * MILLI);
        if self.log.rng.chance(200) {
            wait += self.log.rng.between(400 * MILLI, 900 * MILLI);
        }
        let term = self.log.term;
        self.queue
            .push(self.now + wait, Event::Log(LogEvent::Elect { term }));
    }

    pub(crate) fn elect(&mut self, term: u64) {
        self.log.electing = false;
        if term != self.log.term {
            return;
        }
        if let Some(leader) = self.log.leader
            && self.has_majority(leader)
        {
            return;
        }
        let able: Vec<ServerIx> = (0..self.servers.len())
            .filter_map(|ix| u8::try_from(ix).ok())
            .filter(|ix| self.has_majority(*ix))
            .collect();
        if able.is_empty() {
            return self.stand_for_election();
        }
        let chosen = able[self.log.rng.offset(able.len())];
        self.lead(chosen);
    }

    /// The leader gives up although nothing is wrong.
    pub(crate) fn step_down(&mut self) {
        let able: Vec<ServerIx> = (0..self.servers.len())
            .filter_map(|ix| u8::try_from(ix).ok())
            .filter(|ix| Some(*ix) != self.log.leader && self.has_majority(*ix))
            .collect();
        if self.log.leader.is_some() && !able.is_empty() {
            let chosen = able[self.log.rng.offset(able.len())];
            self.lead(chosen);
        }
    }

    fn lead(&mut self, chosen: ServerIx) {
        let old = self.log.leader;
        self.counts.elections += 1;
        self.log.term += 1;
        self.lead_in_vain();
        self.log.leader = Some(chosen);
        self.log.to_return = 0;
        self.log.grace = 0;
        self.log.since = Some(self.now);
        self.note_reach();
        let term = self.log.term;
        self.note(|| format!("s{chosen} leads in term {term}"));
        let lost = std::mem::take(&mut self.log.in_flight);
        let kept = self.log.rng.offset(lost.len() + 1);
        for (number, entry) in lost.into_iter().enumerate() {
            if let Some((change, attempt)) = entry.waits {
                // Who asked hears of it when the new leader is known.
                let at = self.now + 500 * MILLI + self.net.server_delay();
                let answer = Box::new(Answer::Unknown);
                let event = LogEvent::Answer {
                    change,
                    attempt,
                    answer,
                };
                self.queue.push(at, Event::Log(event));
            }
            if number < kept {
                let entry = InFlight {
                    waits: None,
                    ..entry
                };
                self.commit_entry(entry, None);
            }
        }
        // The new leader's blank entry.
        if self.mutant == Some(Mutant::IndexTwice) {
            self.log.index = self.log.index.saturating_sub(1);
        } else {
            self.log.index += 1;
        }
        self.spread();
        for server in 0..self.servers.len() {
            let ix = u8::try_from(server).unwrap_or(0);
            let lag = if ix == chosen {
                0
            } else {
                self.net.server_delay()
            };
            // One that was told to give up knows at once that it does not lead.
            let gave_up = Some(ix) == old && self.net.servers_reach(chosen, ix);
            self.learn_later(ix, if gave_up { 0 } else { lag });
        }
    }

    /// A server learns who leads, where it can hear that.
    pub(crate) fn learn_later(&mut self, ix: ServerIx, lag: Nanos) {
        let leader = self.log.leader;
        let hears = leader.is_some_and(|leader| self.net.servers_reach(leader, ix));
        if !hears || !self.servers[usize::from(ix)].up {
            return;
        }
        let (life, term) = (self.servers[usize::from(ix)].life, self.log.term);
        let event = ServerEvent::Learns { leader, term };
        self.queue.push(
            self.now + lag,
            Event::Server {
                server: ix,
                life,
                event,
            },
        );
    }

    /// The leader leaves nodes so long to come back. Where one of them has lost its session to a
    /// server, and knocks anew some time, it looks that long at no window and no rollout.
    pub(crate) fn on_time_given(&mut self, leader: ServerIx, time: Duration) {
        if self.log.leader != Some(leader) {
            return;
        }
        self.log.to_return = nanos(time);
        let mut nodes = self.log.newest.nodes();
        let knocks_anew = nodes.any(|record| {
            record.node.status == NodeStatus::Disconnected
                && record.session.epoch == SessionEpoch::NONE
        });
        self.log.grace = if knocks_anew { KNOCK_AGAIN_MAX } else { 0 };
    }

    /// The same as [`Self::minded_for`], for what a leader looks at only once nobody is about to
    /// find it any more.
    pub fn graced_for(&self) -> Nanos {
        let graced = self.led_for().saturating_sub(self.log.grace);
        graced.min(self.minded_for())
    }

    /// For how long the leader has looked after nodes: one that follows a time without any gives
    /// them time to come back first.
    pub fn minded_for(&self) -> Nanos {
        let first = match self.log.to_return {
            0 => 0,
            left => left + TAKES_OVER_WITHIN,
        };
        self.led_for().saturating_sub(first)
    }

    /// For how long the cluster has had a leader with a majority.
    pub fn led_for(&self) -> Nanos {
        self.log
            .since
            .map_or(0, |since| self.now.saturating_sub(since))
    }
}
