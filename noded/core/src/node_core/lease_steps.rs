//! What leases mean for the rest of the node: when groups stop themselves, when tasks may start.

use protocol_model::AllocId;

use super::NodeCore;
use super::leases::{Kept, LeaseNeed};
use crate::alloc_runner::AllocRunner;
use crate::event::LeasesAnswer;
use crate::journal::JournalRecord;
use crate::time::{Moment, Now, earliest};

impl NodeCore {
    /// Keeper answered: what waited for its lease may start.
    pub(super) fn on_leases_answer(&mut self, answer: LeasesAnswer, now: Now) {
        for alloc in self.leases.on_answer(answer, now.moment) {
            if let Some(runner) = self.runners.get_mut(&alloc) {
                runner.grant_lease();
                self.settle(alloc, now);
            }
        }
    }

    /// Tells keeper and the journal what the newest confirmation comes to.
    pub(super) fn tend_leases(&mut self, now: Now) {
        self.session
            .set_leased(self.leases.extended().next().is_some());
        let confirmed = self.session.confirmed();
        if let Some(at) = self.leases.poll_journal(confirmed) {
            self.outbox.journal(JournalRecord::Confirmed { at });
        }
        if let Some(at) = self.last_heard.poll_journal(confirmed, now) {
            self.outbox.journal(JournalRecord::Heard { at });
        }
        if let Some(effect) = self.leases.poll(confirmed, now.moment) {
            self.outbox.push_after(crate::Durability::Nothing, effect);
        }
    }

    /// The newest confirmed heartbeat moved the deadlines of `stop_on_client_after`.
    pub(super) fn renew_leases(&mut self) {
        let leased: Vec<AllocId> = self.leases.extended().collect();
        for alloc in leased {
            let timer = self.runners.get(&alloc).and_then(|it| it.poll_timeout());
            let timer = earliest(timer, self.lease_deadline(alloc));
            self.timers.set(alloc, timer);
        }
    }

    /// When an allocation must be stopped for want of a confirmation by the control plane.
    pub(super) fn lease_deadline(&self, alloc: AllocId) -> Option<Moment> {
        let runner = self.runners.get(&alloc)?;
        let LeaseNeed::Open(term) = runner.lease_need() else {
            return None;
        };
        let over = self.session.confirmed()?.after(term.window);
        if runner.holds_lease() {
            return Some(over);
        }
        // What waits for its lease does not run: a confirmation from before it came ends nothing.
        // What runs already and came to need one ends in time, too, where keeper does not take it.
        // The word of that came in a session, which may not have confirmed a heartbeat yet.
        let first_word = self.leases.since(alloc).after(term.window / 2);
        runner.has_process().then_some(over.max(first_word))
    }

    /// What an earlier daemon left of an allocation's lease. Only keeper knows whether there is
    /// one: while its window is open nothing starts before keeper has answered.
    pub(super) fn restore_lease(&mut self, runner: &mut AllocRunner, kept: Kept, now: Now) {
        // Without any in the journal nobody asked for a lease in this boot.
        let Some(confirmed) = self.session.confirmed() else {
            return;
        };
        match (runner.lease_need(), kept) {
            (LeaseNeed::Open(term), Kept::Runs) => {
                self.leases.restore(runner.id(), term);
                // Nobody asks keeper any more. A poststop task has what is left of the lease that
                // the others began with.
                if now.moment >= confirmed.after(term.window) {
                    runner.grant_lease();
                }
            }
            (LeaseNeed::Open(_), Kept::Nothing) | (LeaseNeed::RunsOut, _) => {}
            // An update took it away, or all of its tasks ended, and the earlier daemon may not
            // have come to say so: keeper would kill what runs now.
            (LeaseNeed::None, _) => self.leases.end(runner.id()),
        }
    }
}
