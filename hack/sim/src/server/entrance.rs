//! How nodes come in where processor time counts: the server's `gateway/admission.rs` and
//! `gateway/lateness.rs`, and the transport's `listener.rs`. Door and pace are the product's.
//!
//! ```text
//!   first packet --> door --begin--> handshake (waits for the processor) --> node says Hello
//!                      `--refuse--> node hears that the server is busy
//!   every 100 ms: how long work waits --> door, pace, lateness
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controlplane_leader::Reading;
use controlplane_leader::pace::Pace;
use noded_core::key::Attempt;
use protocol_model::reconnect::RETRY_MAX;
use protocol_transport::door::{Door, Lane, Step, Wish, WishKind};

use super::greeting::CALM_INTERVAL;
use crate::event::{NodeInput, NodeIx, ServerEvent, ServerIx, ToNode};
use crate::invariants::Observation;
use crate::mutant::Mutant;
use crate::net::{ConnId, Side, Stream};
use crate::time::{MICRO, MILLI, Nanos, SECOND, nanos};
use crate::world::World;

/// How often a server looks how late it is (as the server).
const PROBE_EVERY: Nanos = 100 * MILLI;
/// A delay that is no lateness, and how long a server stays late (as the server).
const LATE_AFTER: Nanos = 500 * MILLI;
const LATE_FOR: Nanos = SECOND;
/// A node that waits no longer than this for its place is admitted at once (as the server).
const AT_ONCE: Duration = Duration::from_millis(500);
/// How long a node whose handshake is over keeps its place (as the transport).
const UNTIL_LIVE_MAX: Nanos = 5 * SECOND;
/// The door's clock when the run begins (as the transport).
const CLOCK_START: Duration = Duration::from_secs(24 * 3600);
/// Processor time of an arrival at the door, and of a refusal.
const ARRIVAL_COST: Nanos = 10 * MICRO;
const REFUSAL_COST: Nanos = 50 * MICRO;

/// A connection whose first packet has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guest {
    pub conn: ConnId,
    pub node: NodeIx,
    pub attempt: Attempt,
    pub kind: WishKind,
    /// Since when the node has wanted it.
    pub wanted: Nanos,
}

/// See the top of this file.
#[derive(Debug, Default)]
pub(super) struct Entrance {
    door: Door<Guest>,
    /// Places that are taken, and since when.
    places: BTreeMap<ConnId, (Lane, Nanos)>,
    /// Nodes at the door that want a session, by when they began to: for those who watch.
    waiting: BTreeSet<(Nanos, ConnId)>,
    armed: Option<Nanos>,
    pace: Pace,
    late_until: Option<Nanos>,
}

/// The door's clock.
fn clock(now: Nanos) -> Duration {
    CLOCK_START + Duration::from_nanos(now)
}

impl World {
    /// A server's process starts, where its processor time counts.
    pub(super) fn open_entrance(&mut self, ix: ServerIx) {
        self.servers[usize::from(ix)].entrance = Entrance::default();
        if self.cpus.is_some() {
            self.server_event(ix, PROBE_EVERY, ServerEvent::Probe);
        }
    }

    /// A first packet.
    pub(super) fn on_arrival(&mut self, ix: ServerIx, guest: Guest, wish: Wish) {
        self.aside(ix, ARRIVAL_COST);
        if self.mutant == Some(Mutant::UnboundedQueue) {
            return self.begin_handshake(ix, guest);
        }
        let now = clock(self.now);
        let wish = self.bend_wish(wish, now);
        let entrance = &mut self.servers[usize::from(ix)].entrance;
        if guest.kind == WishKind::Session {
            entrance.waiting.insert((guest.wanted, guest.conn));
        }
        if let Some(refused) = entrance.door.arrive(Some(wish), guest, now) {
            self.refuse_guest(ix, refused);
        }
        self.turn_door(ix);
    }

    /// Does what there is to do at the door, and asks to be woken.
    pub(super) fn turn_door(&mut self, ix: ServerIx) {
        loop {
            let now = self.now;
            let entrance = &mut self.servers[usize::from(ix)].entrance;
            let Some(step) = entrance.door.next(clock(now)) else {
                break;
            };
            match step {
                Step::Begin(guest, lane) => {
                    entrance.places.insert(guest.conn, (lane, now));
                    entrance.waiting.remove(&(guest.wanted, guest.conn));
                    let oldest = entrance.waiting.first().map(|(wanted, _)| *wanted);
                    if guest.kind == WishKind::Session {
                        self.observe(Observation::Admitted {
                            server: ix,
                            wanted: guest.wanted,
                            oldest,
                        });
                    }
                    self.begin_handshake(ix, guest);
                }
                Step::Refuse(guest) => self.refuse_guest(ix, guest),
            }
        }
        let now = self.now;
        let entrance = &mut self.servers[usize::from(ix)].entrance;
        if let Some(due) = entrance.door.due() {
            let due = nanos(due.saturating_sub(CLOCK_START)).max(now);
            if entrance.armed.is_none_or(|armed| due < armed) {
                entrance.armed = Some(due);
                self.server_event(ix, due - now, ServerEvent::DoorDue);
            }
        }
    }

    pub(super) fn on_door_due(&mut self, ix: ServerIx) {
        self.servers[usize::from(ix)].entrance.armed = None;
        self.turn_door(ix);
    }

    fn begin_handshake(&mut self, ix: ServerIx, guest: Guest) {
        self.server_event(ix, 0, ServerEvent::Handshake(guest));
    }

    fn refuse_guest(&mut self, ix: ServerIx, guest: Guest) {
        let entrance = &mut self.servers[usize::from(ix)].entrance;
        entrance.waiting.remove(&(guest.wanted, guest.conn));
        self.aside(ix, REFUSAL_COST);
        self.counts.turned_away += 1;
        self.note(|| format!("s{ix} has no time for n{}", guest.node));
        self.send_to_node(guest.conn, Stream::Session, ToNode::Busy);
        self.net.leave(guest.conn, Side::Server);
    }

    /// A server's part of a handshake is done: only now it sees whether the node is still there.
    pub(super) fn on_handshake(&mut self, ix: ServerIx, guest: Guest) {
        let Guest {
            conn,
            node,
            attempt,
            kind,
            ..
        } = guest;
        self.counts.handshakes += 1;
        let stays = self.net.conn(conn).is_some_and(|it| it.open == [true; 2]);
        if !stays {
            self.counts.handshakes_in_vain += 1;
            self.net.leave(conn, Side::Server);
            return self.free_place(ix, conn, false);
        }
        match kind {
            WishKind::Session => {
                self.server_event(ix, UNTIL_LIVE_MAX, ServerEvent::PlaceOver { conn });
            }
            WishKind::Calls | WishKind::Standby => self.free_place(ix, conn, false),
        }
        if self.net.passes(node, ix, Side::Node) && self.net.passes(node, ix, Side::Server) {
            let takes = self.net.delay() + self.net.delay();
            let conn = Some(conn);
            self.node_input(node, takes, NodeInput::Connection { attempt, conn });
        }
    }

    /// A place is free: the session is live, or has taken too long for it, or never will be.
    pub(super) fn free_place(&mut self, ix: ServerIx, conn: ConnId, live: bool) {
        let now = self.now;
        let entrance = &mut self.servers[usize::from(ix)].entrance;
        if let Some((lane, since)) = entrance.places.remove(&conn) {
            let took = Duration::from_nanos(now.saturating_sub(since));
            let live_after = live.then_some(took);
            entrance.door.ended(lane, live_after, clock(now));
            self.turn_door(ix);
        }
    }

    /// Looks how late a server is.
    pub(super) fn on_probe(&mut self, ix: ServerIx) {
        let now = self.now;
        let Some(cpus) = &mut self.cpus else {
            return;
        };
        let waited = cpus.servers[usize::from(ix)].take_longest(now);
        let delay = Duration::from_nanos(waited);
        let entrance = &mut self.servers[usize::from(ix)].entrance;
        entrance.door.set_delay(delay, clock(now));
        entrance.pace.on_delay(delay, Duration::from_nanos(now));
        if waited > LATE_AFTER {
            entrance.late_until = Some(now + LATE_FOR);
        }
        self.turn_door(ix);
        self.server_event(ix, PROBE_EVERY, ServerEvent::Probe);
    }

    /// The pace of heartbeats that a server asks for.
    pub(super) fn pace(&self, ix: ServerIx) -> Duration {
        if self.mutant == Some(Mutant::PaceUntold) {
            return Duration::ZERO;
        }
        self.servers[usize::from(ix)].entrance.pace.now()
    }

    /// Whether nodes may be alive of which a server has heard nothing.
    pub(super) fn reading(&self, ix: ServerIx) -> Reading {
        let Some(cpus) = &self.cpus else {
            return Reading::InTime;
        };
        let entrance = &self.servers[usize::from(ix)].entrance;
        let now = self.now;
        let late = entrance.late_until.is_some_and(|until| now < until)
            || cpus.servers[usize::from(ix)].delay(now) > LATE_AFTER;
        let rare = entrance.pace.now() > CALM_INTERVAL;
        let door = entrance.door.state(clock(now));
        let refused = door.refused_at.map(|at| clock(now).saturating_sub(at));
        let slow = door.crowded_for > AT_ONCE || refused.is_some_and(|since| since < RETRY_MAX);
        match () {
            () if self.mutant == Some(Mutant::LatenessUntold) => Reading::InTime,
            () if slow => Reading::Crowded,
            () if late || rare => Reading::Late,
            () => Reading::InTime,
        }
    }
}
