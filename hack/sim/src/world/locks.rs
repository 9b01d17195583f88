//! Clients that contend for one lock. Their requests and the answers are late, and some are lost.
//!
//! ```text
//!            acquire             acknowledged in time
//!   free ──────────────► asks ────────────────────────► holds ◄─┐
//!    ▲                    │ refused, or no answer        │  └───┘ renewed
//!    └────────────────────┴──────────────────────────────┘
//!                            done, refused, or given up
//! ```
//!
//! A client believes in its lock until one TTL after the sending of its last request that was
//! acknowledged. A client that was asleep renews later, and believes the acknowledgement.

use std::time::Duration;

use controlplane_state::command::{
    AcquiredItems, RootKeyUpsert, Rotation, VariableApply, VariableChange,
};
use controlplane_state::{
    Command, Outcome, RootKey, RootKeyState, Sealed, VariableKey, VariableLock,
};
use protocol_model::UnixNanos;
use uuid::Uuid;

use super::World;
use crate::event::{Answer, Event, LockEvent, ServerIx};
use crate::invariants::Observation;
use crate::rng::Rng;
use crate::schedule::{Scenario, Settings};
use crate::server::change::Then;
use crate::time::{MILLI, Nanos, SECOND, nanos};

/// The time of a lock.
pub(crate) const TTL: Duration = Duration::from_secs(10);
/// The time for which it blocks others once it has expired.
pub(crate) const DELAY: Duration = Duration::from_secs(5);

/// Clients that contend.
const CLIENTS: usize = 3;
/// The shortest pause between two looks of a client.
const LOOK: Nanos = 250 * MILLI;
/// When a client that was not answered asks again.
const ANSWER_MAX: Nanos = 4 * SECOND;
/// For how long a client tries at most to renew a lock in which it does not believe any more: until
/// about the time at which the lock ends.
const TRIES_MAX: Nanos = 14 * SECOND;
/// Messages that are lost, of a thousand.
const LOST: u64 = 100;
/// Messages that take seconds, of a thousand.
const LATE: u64 = 80;
/// Renewals before which a client is asleep, of a thousand.
const ASLEEP: u64 = 150;

const STREAM_LOCKS: u64 = 13;

/// The variable.
pub(crate) fn key() -> VariableKey {
    VariableKey::new("default", "app/leader")
}

/// The wish of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWish {
    Acquire,
    Renew,
    Release,
}

/// A request: of each acquisition the lock has an id of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockRequest {
    client: usize,
    wish: LockWish,
    pub(crate) id: Uuid,
    sent: Nanos,
}

/// A client.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Free,
    Asks { id: Uuid, sent: Nanos },
    Holds(Held),
}

#[derive(Clone, Copy, Debug)]
struct Held {
    id: Uuid,
    /// When the last request that was acknowledged was sent.
    sent: Nanos,
    /// When it last tried to renew, or wakes up to do so.
    tried: Nanos,
    /// When it needs the lock no more.
    done_at: Nanos,
    /// For how long it tries to renew the lock once it does not believe in it.
    tries: Nanos,
}

impl Held {
    fn until(&self) -> Nanos {
        self.sent + nanos(TTL)
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct LockClients {
    stages: Vec<Stage>,
    /// The server that each of them asks: another one after a request without an answer.
    servers: Vec<ServerIx>,
    rng: Rng,
}

impl LockClients {
    pub(super) fn new(settings: &Settings) -> Self {
        let count = match settings.scenario {
            Scenario::Locks => CLIENTS,
            _ => 0,
        };
        Self {
            stages: vec![Stage::Free; count],
            servers: vec![0; count],
            rng: Rng::new(settings.seed, STREAM_LOCKS),
        }
    }
}

impl World {
    pub(super) fn start_lock_clients(&mut self) {
        for client in 0..self.locks.stages.len() {
            let turn = LockEvent::Turn { client };
            self.queue.push(4 * SECOND, Event::Lock(turn));
        }
    }

    pub(super) fn on_lock_event(&mut self, event: LockEvent) {
        match event {
            LockEvent::Turn { client } => {
                let pause = LOOK + self.locks.rng.below(LOOK);
                let turn = LockEvent::Turn { client };
                self.queue.push(self.now + pause, Event::Lock(turn));
                self.lock_turn(client);
            }
            LockEvent::Arrives { server, request } => self.on_lock_request(server, request),
            LockEvent::LeaderAsked {
                asked,
                leader,
                request,
            } => self.on_renewal_asked(asked, leader, request),
            LockEvent::Confirmed {
                asked,
                leader,
                term,
                request,
            } => self.on_renewal_confirmed(asked, leader, term, request),
            LockEvent::Answered { request, granted } => self.on_lock_answer(request, granted),
        }
    }

    fn lock_turn(&mut self, client: usize) {
        match self.locks.stages[client] {
            Stage::Free => {
                if !self.calm && self.locks.rng.chance(300) {
                    let id = Uuid::from_u128(self.locks.rng.id());
                    let sent = self.now;
                    self.locks.stages[client] = Stage::Asks { id, sent };
                    self.send_lock_request(client, LockWish::Acquire, id);
                }
            }
            Stage::Asks { sent, .. } => {
                if self.now > sent + ANSWER_MAX {
                    self.ask_another_server(client);
                    self.locks.stages[client] = Stage::Free;
                }
            }
            Stage::Holds(held) => self.hold_on(client, held),
        }
    }

    fn hold_on(&mut self, client: usize, mut held: Held) {
        let is_unanswered = held.tried > held.sent;
        let pause = match is_unanswered {
            true => SECOND,
            false => nanos(TTL) / 3,
        };
        let gives_up = self.now > held.until() + held.tries;
        if self.calm || gives_up || self.now >= held.done_at {
            self.leave_lock(client, held.id);
            self.send_lock_request(client, LockWish::Release, held.id);
        } else if self.now.saturating_sub(held.tried) >= pause {
            if is_unanswered {
                self.ask_another_server(client);
            }
            held.tried = self.now;
            if self.locks.rng.chance(ASLEEP) {
                held.tried += self.locks.rng.below(nanos(2 * TTL));
            } else {
                self.send_lock_request(client, LockWish::Renew, held.id);
            }
            self.locks.stages[client] = Stage::Holds(held);
        }
    }

    fn ask_another_server(&mut self, client: usize) {
        let server = self.locks.rng.below(u64::from(self.schedule.servers));
        self.locks.servers[client] = u8::try_from(server).unwrap_or(0);
    }

    fn leave_lock(&mut self, client: usize, id: Uuid) {
        self.locks.stages[client] = Stage::Free;
        self.observe(Observation::LockLeft { id });
    }

    fn send_lock_request(&mut self, client: usize, wish: LockWish, id: Uuid) {
        let server = self.locks.servers[client];
        self.note(|| format!("client {client} sends s{server} {wish:?} of {id}"));
        let request = LockRequest {
            client,
            wish,
            id,
            sent: self.now,
        };
        self.deliver(LockEvent::Arrives { server, request });
    }

    /// Brings a message over the network of the clients, or loses it.
    fn deliver(&mut self, event: LockEvent) {
        let rng = &mut self.locks.rng;
        if !self.calm && rng.chance(LOST) {
            return;
        }
        let wait = match rng.chance(LATE) {
            true => rng.below(6 * SECOND),
            false => rng.between(MILLI, 30 * MILLI),
        };
        self.queue.push(self.now + wait, Event::Lock(event));
    }

    fn on_lock_request(&mut self, server: ServerIx, request: LockRequest) {
        if !self.servers[usize::from(server)].runs() {
            return;
        }
        let change = match request.wish {
            LockWish::Renew => return self.renew_lock(server, request),
            LockWish::Release => VariableChange::Release,
            LockWish::Acquire => acquire(request.id),
        };
        let command = if self.state().root_keys().next().is_none() {
            first_key()
        } else {
            let lock_id = (request.wish == LockWish::Release).then_some(request.id);
            VariableApply {
                key: key(),
                cas: None,
                lock_id,
                change,
            }
            .into()
        };
        self.change(server, command, Then::Lock(request));
    }

    /// A server is told what became of an acquisition or a release.
    pub(crate) fn on_lock_changed(&mut self, request: LockRequest, answer: &Answer) {
        let granted = matches!(
            answer,
            Answer::Done {
                outcome: Outcome::VariableChanged(_),
                ..
            }
        );
        self.answer_lock(request, granted);
    }

    /// A server answers a client.
    pub(crate) fn answer_lock(&mut self, request: LockRequest, granted: bool) {
        self.deliver(LockEvent::Answered { request, granted });
    }

    fn on_lock_answer(&mut self, request: LockRequest, granted: bool) {
        let LockRequest {
            client,
            wish,
            id,
            sent,
        } = request;
        match (self.locks.stages[client], wish) {
            (Stage::Asks { id: asked, .. }, LockWish::Acquire) if asked == id => {
                if !granted {
                    self.locks.stages[client] = Stage::Free;
                    return;
                }
                let rng = &mut self.locks.rng;
                let done_at = self.now + rng.between(2 * SECOND, 60 * SECOND);
                // Half of them give up just when the lock ends.
                let tries = match rng.chance(500) {
                    true => rng.below(TRIES_MAX),
                    false => rng.between(TRIES_MAX - 6 * SECOND, TRIES_MAX - 3 * SECOND),
                };
                self.believe(
                    client,
                    Held {
                        id,
                        sent,
                        tried: sent,
                        done_at,
                        tries,
                    },
                );
            }
            (Stage::Holds(held), LockWish::Renew) if held.id == id && granted => {
                let sent = held.sent.max(sent);
                self.believe(client, Held { sent, ..held });
            }
            (Stage::Holds(held), LockWish::Renew) if held.id == id => self.leave_lock(client, id),
            _ => {}
        }
    }

    /// The lock is released or ends, once no client wants it any more.
    pub(super) fn unfinished_lock(&self) -> Option<String> {
        let lock = self.state().variable(&key())?.lock.as_ref()?;
        Some(format!("lock {} goes on", lock.id))
    }

    fn believe(&mut self, client: usize, held: Held) {
        self.locks.stages[client] = Stage::Holds(held);
        let (id, until) = (held.id, held.until());
        self.note(|| format!("client {client} holds {id} until {until}"));
        self.observe(Observation::LockHeld { id, until });
    }
}

fn acquire(id: Uuid) -> VariableChange {
    VariableChange::Acquire {
        sealed: Sealed {
            key: 1,
            nonce: [1; 12],
            bytes: vec![1; 20],
        },
        items: AcquiredItems::Kept,
        lock: VariableLock {
            id,
            ttl: TTL,
            delay: DELAY,
            until: None,
        },
    }
}

/// The first key that variables are sealed with.
fn first_key() -> Command {
    let key = RootKey {
        id: Uuid::from_u128(1),
        number: 0,
        kek_id: [7; 8],
        wrapped: vec![1],
        public_ed25519: vec![2; 32],
        public_rsa: vec![3],
        state: RootKeyState::Active,
        create_time: UnixNanos::ZERO,
        state_time: UnixNanos::ZERO,
        publish_time: UnixNanos::ZERO,
        seals: 0,
        create_index: 0,
        modify_index: 0,
    };
    RootKeyUpsert {
        key,
        replaces: None,
        rotation: Rotation::default(),
    }
    .into()
}
