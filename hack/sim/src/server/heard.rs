//! Who was heard, and the reporter that tells the leader: the server's `gateway/liveness.rs`.

use std::cmp::Ordering;
use std::time::Duration;

use controlplane_leader::Reading;
use controlplane_state::SessionEpoch;

use crate::event::{Event, NodeIx, ServerEvent, ServerIx};
use crate::mutant::Mutant;
use crate::time::{MILLI, Nanos, SECOND};
use crate::world::World;

/// How often the leader is told (as the server).
const REPORT_EVERY: Nanos = 200 * MILLI;
/// How long the leader may take to confirm (as the server).
const CONFIRMED_WITHIN: Nanos = 500 * MILLI;

/// How long the leader may confirm nothing before the server counts as cut off (as the server). It
/// is looked at after each report, so that it may be noticed by [`CONFIRMED_WITHIN`] later.
const CUT_OFF_AFTER: Nanos = 1_200 * MILLI;

/// The same while it knows of no leader, or of one since a moment ago (as the server).
const LEADERLESS_AFTER: Nanos = 1_800 * MILLI;

/// How long a leader goes on as one that its majority has left: the longest election timeout (as
/// the log's default).
const QUORUM_WITHIN: Nanos = 800 * MILLI;

/// How long a planted bug drops confirmations, and does not.
const DROPS: Nanos = 20 * SECOND;

/// One node, heard. `at` is the hearing server's; only ages are told to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    pub node: NodeIx,
    pub epoch: SessionEpoch,
    pub at: Nanos,
    /// By the node's own clock.
    pub sent: u64,
}

impl Heard {
    fn merge(&mut self, other: Self) {
        match other.epoch.cmp(&self.epoch) {
            Ordering::Less => {}
            Ordering::Equal => {
                self.at = self.at.max(other.at);
                self.sent = self.sent.max(other.sent);
            }
            Ordering::Greater => *self = other,
        }
    }
}

/// What was heard since the last report, and what the leader has confirmed.
#[derive(Debug)]
pub(super) struct HeardLog {
    fresh: Vec<Option<Heard>>,
    /// Nodes with something fresh, each once.
    touched: Vec<NodeIx>,
    /// Of one session: boot clocks of another boot are not compared.
    confirmed: Vec<(SessionEpoch, u64)>,
    /// The report that the leader was told and did not answer yet.
    told: Option<(u64, Vec<Heard>)>,
    number: u64,
    /// When the leader last confirmed a report.
    confirmed_at: Nanos,
    /// Who led at the last look, and since which.
    leads: (Option<ServerIx>, Nanos),
    cut_off: bool,
}

impl HeardLog {
    pub(super) fn new(nodes: usize, now: Nanos) -> Self {
        Self {
            fresh: vec![None; nodes],
            touched: Vec::new(),
            confirmed: vec![(SessionEpoch::NONE, 0); nodes],
            told: None,
            number: 0,
            confirmed_at: now,
            leads: (None, now),
            cut_off: false,
        }
    }

    pub(super) fn heard(&mut self, heard: Heard) {
        match &mut self.fresh[heard.node as usize] {
            Some(newest) => newest.merge(heard),
            slot @ None => {
                self.touched.push(heard.node);
                *slot = Some(heard);
            }
        }
    }

    pub(super) fn confirmed(&self, node: NodeIx, epoch: SessionEpoch) -> u64 {
        let (of, sent) = self.confirmed[node as usize];
        if of == epoch { sent } else { 0 }
    }

    pub(super) fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    pub(super) fn forget(&mut self, node: NodeIx) {
        self.confirmed[node as usize] = (SessionEpoch::NONE, 0);
    }

    fn take(&mut self) -> Vec<Heard> {
        let touched = std::mem::take(&mut self.touched);
        touched
            .into_iter()
            .filter_map(|node| self.fresh[node as usize].take())
            .collect()
    }

    fn confirm(&mut self, heard: &[Heard], not_watched: &[NodeIx], now: Nanos) {
        self.confirmed_at = now;
        let watched = heard.iter().filter(|one| !not_watched.contains(&one.node));
        for one in watched {
            let newest = &mut self.confirmed[one.node as usize];
            *newest = (one.epoch, one.sent).max(*newest);
        }
    }

    fn put_back(&mut self, heard: Vec<Heard>) {
        for one in heard {
            self.heard(one);
        }
    }
}

impl World {
    pub(super) fn report_heard(&mut self, ix: ServerIx) {
        let (now, reading) = (self.now, self.reading(ix));
        let server = &mut self.servers[usize::from(ix)];
        if server.heard.told.is_some() {
            // The next report waits for this one's answer.
            return self.server_event(ix, 10 * MILLI, ServerEvent::ReportTick);
        }
        let leads = server.is_leader(ix);
        let leader = server.believes;
        let heard = server.heard.take();
        self.server_event(ix, REPORT_EVERY, ServerEvent::ReportTick);
        if leads {
            let answer = self.lead_on_heard(ix, ix, reading, &heard);
            let may_confirm = self.may_confirm(ix);
            let log = &mut self.servers[usize::from(ix)].heard;
            match answer.filter(|_| may_confirm) {
                Some(not_watched) => log.confirm(&heard, &not_watched, now),
                None => log.put_back(heard),
            }
            return self.look_whether_cut_off(ix);
        }
        let server = &mut self.servers[usize::from(ix)];
        let Some(leader) = leader else {
            server.heard.put_back(heard);
            return self.look_whether_cut_off(ix);
        };
        server.heard.number += 1;
        let number = server.heard.number;
        if self.net.servers_reach(ix, leader) {
            let delay = self.net.server_delay() + self.servers[usize::from(leader)].extra;
            let life = self.servers[usize::from(leader)].life;
            // Clocks are not compared, ages are: the way itself is not counted.
            let aged = heard
                .iter()
                .map(|one| Heard {
                    at: self.now - one.at,
                    ..*one
                })
                .collect();
            let event = ServerEvent::Report {
                from: ix,
                number,
                reading,
                heard: aged,
            };
            let event = Event::Server {
                server: leader,
                life,
                event,
            };
            self.queue.push(self.now + delay, event);
        }
        self.servers[usize::from(ix)].heard.told = Some((number, heard));
        self.server_event(ix, CONFIRMED_WITHIN, ServerEvent::NotConfirmed { number });
    }

    /// The leader is told.
    pub(super) fn on_report(
        &mut self,
        ix: ServerIx,
        from: ServerIx,
        number: u64,
        reading: Reading,
        aged: &[Heard],
    ) {
        let leads = self.servers[usize::from(ix)].is_leader(ix) && self.may_confirm(ix);
        let mut answer = None;
        if leads {
            let heard: Vec<Heard> = aged
                .iter()
                .map(|one| Heard {
                    at: self.now - one.at,
                    ..*one
                })
                .collect();
            answer = self.lead_on_heard(ix, from, reading, &heard);
        }
        if !self.net.servers_reach(ix, from) || !self.servers[usize::from(from)].up {
            return;
        }
        let delay = self.net.server_delay() + self.servers[usize::from(from)].extra;
        let event = match answer {
            Some(not_watched) => ServerEvent::Confirmed {
                number,
                not_watched,
                led_for: self.tenure_of(ix),
            },
            None => ServerEvent::NotConfirmed { number },
        };
        self.server_event(from, delay, event);
    }

    /// Whether a leader has heard from a majority of late: one that has not may have been replaced.
    pub(super) fn may_confirm(&self, ix: ServerIx) -> bool {
        let server = &self.servers[usize::from(ix)];
        let of_late = |at: Nanos| self.now.saturating_sub(at) <= QUORUM_WITHIN;
        self.mutant == Some(Mutant::ConfirmsAlone)
            || self.log.leader == Some(ix) && self.has_majority(ix)
            || server.is_leader(ix) && server.quorum_at.is_some_and(of_late)
    }

    /// The leader has answered, and does not watch some; or it has not.
    pub(super) fn on_report_answered(
        &mut self,
        ix: ServerIx,
        number: u64,
        confirmed: Option<&[NodeIx]>,
    ) {
        let (now, mutant, leaderless) = (self.now, self.mutant, self.led_for() == 0);
        let log = &mut self.servers[usize::from(ix)].heard;
        let Some((_, heard)) = log.told.take_if(|(told, _)| *told == number) else {
            return;
        };
        match confirmed {
            // Not all the time, so that something is on a lease.
            Some(_) if mutant == Some(Mutant::ConfirmationsDropped) && now / DROPS % 2 == 1 => {
                log.confirmed_at = now;
            }
            Some(not_watched) => log.confirm(&heard, not_watched, now),
            None if mutant == Some(Mutant::ConfirmsLeaderless) && leaderless => {
                log.confirm(&heard, &[], now);
            }
            None => log.put_back(heard),
        }
        self.look_whether_cut_off(ix);
    }

    /// After each report, whatever became of it.
    fn look_whether_cut_off(&mut self, ix: ServerIx) {
        let now = self.now;
        let server = &mut self.servers[usize::from(ix)];
        let log = &mut server.heard;
        if log.leads.0 != server.believes {
            log.leads = (server.believes, now);
        }
        let unconfirmed = now.saturating_sub(log.confirmed_at);
        let led = now.saturating_sub(log.leads.1);
        let by_leader = server.believes.is_some() && led.min(unconfirmed) >= CUT_OFF_AFTER;
        log.cut_off = by_leader || unconfirmed >= LEADERLESS_AFTER;
    }
}

/// The age of something heard, as the leader's parts take it.
pub(super) fn age(heard: &Heard, now: Nanos) -> Duration {
    Duration::from_nanos(now.saturating_sub(heard.at))
}
