//! However many nodes want a session at once, and however slow servers are: all of them get one
//! within a time that follows from the work, none of them twice, and nobody is given up who is
//! there.

use super::{Invariant, Observation, taken_in};
use crate::cpu::CORE;
use crate::event::NodeIx;
use crate::schedule::storm::SESSION_COST;
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// How many times the work of all sessions may pass until all are live: heartbeats of those that
/// are live take as much again, and servers do not share the nodes evenly.
const TIMES: u64 = 4;
/// The time that nodes may wait besides: a round of back-off, an attempt, and an election.
const BESIDES: Nanos = 25 * SECOND;
/// For how long no node may become live while others wait: the longest back-off and an attempt.
const STANDSTILL: Nanos = 20 * SECOND;
/// Sessions and handshakes per node, in hundredths.
const SESSIONS_MAX: u64 = 130;

/// How it stands since a disturbance.
#[derive(Debug, Default)]
pub(super) struct ProgressNeverStops {
    since: Nanos,
    /// The most nodes that had a session, and since when.
    live: usize,
    grew: Nanos,
    /// Sessions that had been made when it began.
    sessions: u64,
}

impl ProgressNeverStops {
    fn look(&mut self, world: &World) -> Result<(), String> {
        let Some(share) = world.shares() else {
            return Ok(());
        };
        let now = world.now;
        if self.since != world.disturbed_at {
            let sessions = world.counts().sessions;
            *self = Self {
                since: world.disturbed_at,
                grew: now,
                sessions: if self.since == 0 {
                    sessions
                } else {
                    self.sessions
                },
                ..Self::default()
            };
        }
        let nodes = world.nodes().len();
        let able = (0..nodes).filter_map(|ix| NodeIx::try_from(ix).ok());
        let able: Vec<NodeIx> = able.filter(|ix| world.may_have_session(*ix)).collect();
        let live = able.iter().filter(|ix| world.has_session(**ix)).count();
        if live > self.live || live == able.len() {
            (self.live, self.grew) = (live.max(self.live), now);
        }
        let missing = able.len() - live;
        let work = nodes as u64 * SESSION_COST * CORE / share.max(1);
        let limit = TIMES * work + BESIDES;
        let (lasts, still) = (now - self.since, now - self.grew);
        if missing > 0 && lasts > limit && self.live < able.len() {
            return Err(format!(
                "{missing} of {nodes} nodes have no session after {} s, and all of them are {} s \
                 of work",
                lasts / SECOND,
                work / SECOND
            ));
        }
        if missing > 0 && still > STANDSTILL {
            return Err(format!(
                "{missing} of {nodes} nodes have no session, and none got one for {} s",
                still / SECOND
            ));
        }
        let made = world.counts().sessions - self.sessions;
        if made * 100 > nodes as u64 * SESSIONS_MAX {
            return Err(format!("{made} sessions were made for {nodes} nodes"));
        }
        Ok(())
    }
}

impl Invariant for ProgressNeverStops {
    fn name(&self) -> &'static str {
        "progress_never_stops"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Storms: every node gets a session, however many want one"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if world.shares().is_none() {
            return Ok(());
        }
        if let Observation::Second = seen {
            return self.look(world);
        }
        for ix in taken_in(seen) {
            if world.has_session(ix) {
                return Err(format!("n{ix} has a session, and is taken for silent"));
            }
        }
        Ok(())
    }
}
