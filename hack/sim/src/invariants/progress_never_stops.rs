//! However many nodes want a session at once, and however slow servers are: all of them get one
//! within a time that follows from the work, none of them twice, and no node in a session is given
//! up.

use super::{Invariant, Observation, taken_in};
use crate::cpu::CORE;
use crate::event::NodeIx;
use crate::schedule::storm::SESSION_COST;
use crate::time::{MILLI, Nanos, SECOND};
use crate::world::World;

/// How many times the work of all sessions may pass until all are live: heartbeats of live nodes
/// take their part, and nodes do not find the server with most time at once.
const TIMES: u64 = 2;
/// The time that nodes may wait besides: the longest back-off, an attempt, and an election.
const BESIDES: Nanos = 22 * SECOND;
/// For how long no node may become live while others wait: the longest back-off and an attempt.
const STANDSTILL: Nanos = 20 * SECOND;
/// Sessions per node, in hundredths.
const SESSIONS_MAX: u64 = 130;
/// Handshakes per node that led to nothing, in hundredths.
const IN_VAIN_MAX: u64 = 120;
/// First packets tell times in units, and take a moment.
const UNIT: Nanos = 200 * MILLI;

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
        let in_vain = world.counts().handshakes_in_vain;
        if in_vain * 100 > nodes as u64 * IN_VAIN_MAX {
            return Err(format!(
                "{in_vain} handshakes of {nodes} nodes were in vain"
            ));
        }
        Ok(())
    }
}

impl Invariant for ProgressNeverStops {
    fn name(&self) -> &'static str {
        "progress_never_stops"
    }

    fn source(&self) -> &'static str {
        "sessions.md, More nodes than can be served: every node gets a session"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if world.shares().is_none() {
            return Ok(());
        }
        match seen {
            Observation::Second => self.look(world),
            Observation::Admitted {
                server,
                wanted,
                oldest: Some(oldest),
            } if *oldest + UNIT < *wanted => Err(format!(
                "s{server} serves a node that wants a session {} ms later than one that waits",
                (wanted - oldest) / MILLI
            )),
            seen => match taken_in(seen)
                .iter()
                .find(|ix| world.may_have_session(**ix))
            {
                Some(ix) => Err(format!(
                    "n{ix} has a session or waits for one, and is taken for silent"
                )),
                None => Ok(()),
            },
        }
    }
}
