//! Renewals of locks, as the server's `cluster/renew.rs` makes them: by the leader's part, once a
//! majority has told the leader that it still leads. Nothing is retried here; clients do that.

use controlplane_leader::Now;
use controlplane_state::command::{VariableApply, VariableChange, VariableLocksExpire};
use controlplane_state::{Command, Snapshot};

use crate::event::{Event, LockEvent, ServerIx};
use crate::mutant::Mutant;
use crate::world::World;
use crate::world::locks::{LockRequest, key};

impl World {
    /// A server passes a renewal on to whom it takes for the leader.
    pub(crate) fn renew_lock(&mut self, asked: ServerIx, request: LockRequest) {
        let Some(leader) = self.servers[usize::from(asked)].believes else {
            return;
        };
        let mut delay = self.servers[usize::from(leader)].extra;
        if leader != asked {
            if !self.net.servers_reach(asked, leader) {
                return;
            }
            delay += self.net.server_delay();
        }
        let event = LockEvent::LeaderAsked {
            asked,
            leader,
            request,
        };
        self.queue.push(self.now + delay, Event::Lock(event));
    }

    /// The leader asks a majority whether it still leads.
    pub(crate) fn on_renewal_asked(
        &mut self,
        asked: ServerIx,
        leader: ServerIx,
        request: LockRequest,
    ) {
        let server = &self.servers[usize::from(leader)];
        if !server.runs() || server.believes != Some(leader) {
            return;
        }
        let term = server.believed_term;
        let leads = self.log.leader == Some(leader) && self.log.term == term;
        let is_confirmed = leads && self.has_majority(leader);
        if !is_confirmed && self.mutant != Some(Mutant::RenewedAlone) {
            return;
        }
        let delay = self.net.server_delay() + self.net.server_delay();
        let event = LockEvent::Confirmed {
            asked,
            leader,
            term,
            request,
        };
        self.queue.push(self.now + delay, Event::Lock(event));
    }

    /// The leader's loop takes the renewal.
    pub(crate) fn on_renewal_confirmed(
        &mut self,
        asked: ServerIx,
        leader: ServerIx,
        term: u64,
        request: LockRequest,
    ) {
        let server = &self.servers[usize::from(leader)];
        let leads = server.believes == Some(leader) && server.believed_term == term;
        if !server.runs() || !leads {
            return;
        }
        let (now, snapshot) = (self.leader_now(leader), server.snapshot.clone());
        let Some((_, running)) = self.running(leader) else {
            return;
        };
        let renewed = running
            .leader
            .on_renewal(&key(), request.id, &snapshot, now);
        let lock = snapshot
            .variable(&key())
            .and_then(|variable| variable.lock.as_ref());
        let shows = lock.is_some_and(|lock| lock.id == request.id);
        let is_planted = shows && self.mutant == Some(Mutant::RenewedAfterEnd);
        self.turn(leader);
        if asked == leader || self.net.servers_reach(leader, asked) {
            self.answer_lock(request, renewed.is_ok() || is_planted);
        }
    }
}

/// The command of a planted bug about locks, at a leader since this index.
pub(super) fn planted(
    mutant: Option<Mutant>,
    snapshot: &Snapshot,
    since: u64,
    now: Now,
) -> Option<Command> {
    let variable = snapshot.variable(&key())?;
    let lock = variable.lock.as_ref()?;
    match mutant? {
        Mutant::LocksCountFromAcquisition if lock.until.is_none() => {
            let lasted = now.wall.saturating_since(variable.modify_time);
            let is_over = variable.modify_index <= since && lasted >= 2 * lock.ttl;
            let locks = vec![(key(), lock.id)];
            is_over.then(|| VariableLocksExpire { locks }.into())
        }
        // As soon as it leads.
        Mutant::LockDelayForgotten if lock.until.is_some() && snapshot.index() == since => {
            let release = VariableApply {
                key: key(),
                cas: None,
                lock_id: Some(lock.id),
                change: VariableChange::Release,
            };
            Some(release.into())
        }
        _ => None,
    }
}
