//! Leases of groups that stop themselves when nobody hears their node (`stop_on_client_after`):
//! what keeper is told, so that it ends them in time whether the daemon lives or not.
//!
//! ```text
//!                asked for               keeper answered
//!   needed ------------------> in flight ----------------> held: tasks may start
//!     ^                                                     |  |
//!     +------ the control plane confirmed a heartbeat ------+  | every task is dead
//!                                                              v
//!                                             ended: keeper forgets it
//! ```
//!
//! One request is in flight at a time, so that none overtakes another, and a slow keeper is told
//! the newest word only. It never waits for the journal: a disk that hangs must end no task.
//!
//! Keeper takes all of a request or nothing. One that named a lease it does not hold yet may have
//! been refused for that one alone (its record finds no room), so what it holds is asked for once
//! more by itself: a group that cannot start ends none that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol_model::AllocId;

use crate::effect::Effect;
use crate::event::LeasesAnswer;
use crate::time::Moment;

/// Keeper refused: the next request follows after this.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The journal is behind the newest confirmation by at most this part of the shortest lease...
const JOURNAL_PART: u32 = 8;
/// ... and by at least this: confirmations come several times a second.
const JOURNAL_STEP_MIN: Duration = Duration::from_millis(250);

/// How long a group may go on without a word of the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeaseTerm {
    /// Until its tasks are asked to end.
    pub(crate) window: Duration,
    /// Until keeper kills them.
    pub(crate) whole: Duration,
}

/// What an allocation asks of its lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeaseNeed {
    /// Nothing: its group needs none, or every task is dead.
    None,
    /// To be extended.
    Open(LeaseTerm),
    /// To run out: its tasks are being stopped for want of a confirmation.
    RunsOut,
}

/// One allocation that must not run without a lease.
#[derive(Clone, Copy, Debug)]
struct Member {
    need: LeaseNeed,
    /// What keeper holds, as far as it has answered.
    held: Option<Moment>,
}

/// The leases of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    members: BTreeMap<AllocId, Member>,
    /// Keeper may hold these, and need not.
    ended: BTreeSet<AllocId>,
    in_flight: Option<BTreeMap<AllocId, Moment>>,
    not_before: Moment,
    /// What keeper does not hold yet is asked for after this.
    new_not_before: Moment,
    /// The newest confirmation in the journal.
    journaled: Option<Moment>,
}

impl Leases {
    /// What an earlier daemon of this boot journaled.
    pub(super) fn set_journaled(&mut self, confirmed: Option<Moment>) {
        self.journaled = confirmed;
    }

    /// The newest confirmation in the journal.
    pub(super) fn journaled(&self) -> Option<Moment> {
        self.journaled
    }

    /// Keeper holds a lease for this allocation, as an earlier daemon left it.
    pub(super) fn restore(&mut self, alloc: AllocId, term: LeaseTerm, confirmed: Moment) {
        let held = Some(confirmed.after(term.whole));
        let need = LeaseNeed::Open(term);
        self.members.insert(alloc, Member { need, held });
    }

    /// What an allocation needs now. Returns whether it is no member any more.
    pub(super) fn set(&mut self, alloc: AllocId, need: LeaseNeed) -> bool {
        if need == LeaseNeed::None {
            let left = self.members.remove(&alloc).is_some();
            if left {
                self.ended.insert(alloc);
            }
            return left;
        }
        self.ended.remove(&alloc);
        let member = self.members.entry(alloc);
        member.or_insert(Member { need, held: None }).need = need;
        false
    }

    /// Allocations whose leases are extended.
    pub(super) fn extended(&self) -> impl Iterator<Item = AllocId> {
        let open = self.members.iter();
        open.filter(|(_, member)| matches!(member.need, LeaseNeed::Open(_)))
            .map(|(alloc, _)| *alloc)
    }

    /// The request that is due, where one is. `confirmed` is when the newest heartbeat was sent
    /// whose receipt the leader has confirmed.
    pub(super) fn poll(&mut self, confirmed: Option<Moment>, now: Moment) -> Option<Effect> {
        let nobody = self.members.is_empty() && self.ended.is_empty();
        if nobody || self.in_flight.is_some() || now < self.not_before {
            return None;
        }
        let wanted = self.members.iter().filter_map(|(alloc, member)| {
            let LeaseNeed::Open(term) = member.need else {
                return None;
            };
            let confirmed = confirmed?;
            let until = confirmed.after(term.whole);
            let fresh = now < confirmed.after(term.window);
            let due = match member.held {
                // A lease that is over already lets nothing start.
                None => fresh && now >= self.new_not_before,
                // Its term became shorter. Where it is over by that, the group is being stopped,
                // in all of its kill timeout.
                Some(held) if held > until => fresh,
                Some(held) => held < until,
            };
            due.then_some((*alloc, until))
        });
        let extend: BTreeMap<AllocId, Moment> = wanted.collect();
        let end: Vec<AllocId> = std::mem::take(&mut self.ended).into_iter().collect();
        if extend.is_empty() && end.is_empty() {
            return None;
        }
        let asked = extend.iter().map(|(alloc, until)| (*alloc, *until));
        let effect = Effect::TendLeases {
            extend: asked.collect(),
            end,
        };
        self.in_flight = Some(extend);
        Some(effect)
    }

    /// Keeper answered. Returns the allocations that have a lease from now on and had none.
    pub(super) fn on_answer(&mut self, answer: LeasesAnswer, now: Moment) -> Vec<AllocId> {
        let asked = self.in_flight.take().unwrap_or_default();
        match answer {
            LeasesAnswer::Done => {}
            LeasesAnswer::Refused => {
                let again = now.after(AGAIN_AFTER);
                let held = |alloc| {
                    let member = self.members.get(alloc);
                    member.is_some_and(|member| member.held.is_some())
                };
                if asked.keys().all(held) {
                    self.not_before = again;
                }
                self.new_not_before = again;
                return Vec::new();
            }
        }
        let mut granted = Vec::new();
        for (alloc, until) in asked {
            if let Some(member) = self.members.get_mut(&alloc) {
                if member.held.is_none() {
                    granted.push(alloc);
                }
                member.held = Some(until);
            }
        }
        granted
    }

    /// The confirmation to be journaled, where the journal is too far behind: a daemon that is
    /// killed leaves its successor the same deadlines, or somewhat earlier ones.
    pub(super) fn poll_journal(&mut self, confirmed: Option<Moment>) -> Option<Moment> {
        let confirmed = confirmed?;
        let windows = self
            .members
            .values()
            .filter_map(|member| match member.need {
                LeaseNeed::Open(term) => Some(term.window),
                LeaseNeed::None | LeaseNeed::RunsOut => None,
            });
        let step = (windows.min()? / JOURNAL_PART).max(JOURNAL_STEP_MIN);
        if self.journaled.is_some_and(|at| confirmed < at.after(step)) {
            return None;
        }
        self.journaled = Some(confirmed);
        Some(confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOC: AllocId = AllocId::from_u128(1);
    const TERM: LeaseTerm = LeaseTerm {
        window: Duration::from_secs(16),
        whole: Duration::from_secs(20),
    };

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn extended(effect: Option<Effect>) -> Vec<(AllocId, Moment)> {
        match effect {
            Some(Effect::TendLeases { extend, .. }) => extend,
            Some(other) => panic!("{other:?}"),
            None => Vec::new(),
        }
    }

    #[test]
    fn one_request_is_in_flight_and_the_next_has_the_newest_word() {
        let mut leases = Leases::default();
        leases.set(ALLOC, LeaseNeed::Open(TERM));
        assert_eq!(leases.poll(None, at(5)), None, "nobody was heard yet");
        let first = extended(leases.poll(Some(at(5)), at(5)));
        assert_eq!(first, [(ALLOC, at(25))]);
        assert_eq!(leases.poll(Some(at(6)), at(6)), None);
        assert_eq!(leases.on_answer(LeasesAnswer::Done, at(6)), [ALLOC]);
        let second = extended(leases.poll(Some(at(7)), at(7)));
        assert_eq!(second, [(ALLOC, at(27))]);
        assert!(leases.on_answer(LeasesAnswer::Done, at(7)).is_empty());
        assert_eq!(leases.poll(Some(at(7)), at(8)), None, "nothing moved");
    }

    #[test]
    fn what_is_new_waits_for_a_confirmation_that_still_counts() {
        let mut leases = Leases::default();
        leases.set(ALLOC, LeaseNeed::Open(TERM));
        assert_eq!(leases.poll(Some(at(5)), at(21)), None);
        assert!(leases.poll(Some(at(20)), at(21)).is_some());
    }

    #[test]
    fn a_refusal_grants_nothing_and_is_tried_again_later() {
        let mut leases = Leases::default();
        leases.set(ALLOC, LeaseNeed::Open(TERM));
        assert!(leases.poll(Some(at(5)), at(5)).is_some());
        assert!(leases.on_answer(LeasesAnswer::Refused, at(5)).is_empty());
        assert_eq!(leases.poll(Some(at(5)), at(5)), None);
        assert!(leases.poll(Some(at(5)), at(6)).is_some());
        assert_eq!(leases.on_answer(LeasesAnswer::Done, at(6)), [ALLOC]);
    }

    #[test]
    fn what_keeper_cannot_take_anew_keeps_nobody_from_being_extended() {
        const NEW: AllocId = AllocId::from_u128(2);
        let mut leases = Leases::default();
        leases.restore(ALLOC, TERM, at(5));
        leases.set(NEW, LeaseNeed::Open(TERM));
        let both = extended(leases.poll(Some(at(6)), at(6)));
        assert_eq!(both, [(ALLOC, at(26)), (NEW, at(26))]);
        assert!(leases.on_answer(LeasesAnswer::Refused, at(6)).is_empty());
        let alone = extended(leases.poll(Some(at(6)), at(6)));
        assert_eq!(alone, [(ALLOC, at(26))]);
        assert!(leases.on_answer(LeasesAnswer::Done, at(6)).is_empty());
        assert_eq!(leases.poll(Some(at(6)), at(6)), None);
        let both = extended(leases.poll(Some(at(7)), at(7)));
        assert_eq!(both, [(ALLOC, at(27)), (NEW, at(27))]);
        assert_eq!(leases.on_answer(LeasesAnswer::Done, at(7)), [NEW]);
    }

    #[test]
    fn a_term_that_became_shorter_is_keepers_too_unless_it_is_over_by_that() {
        const SHORTER: LeaseTerm = LeaseTerm {
            window: Duration::from_secs(6),
            whole: Duration::from_secs(10),
        };
        let mut leases = Leases::default();
        leases.restore(ALLOC, TERM, at(5));
        leases.set(ALLOC, LeaseNeed::Open(SHORTER));
        assert_eq!(leases.poll(Some(at(5)), at(11)), None);
        let shorter = extended(leases.poll(Some(at(5)), at(10)));
        assert_eq!(shorter, [(ALLOC, at(15))]);
        leases.on_answer(LeasesAnswer::Done, at(10));
        assert_eq!(leases.poll(Some(at(5)), at(10)), None);
    }

    #[test]
    fn what_runs_out_is_extended_no_more_and_what_is_dead_is_ended() {
        let mut leases = Leases::default();
        leases.restore(ALLOC, TERM, at(5));
        assert_eq!(leases.poll(Some(at(5)), at(5)), None, "keeper has it");
        leases.set(ALLOC, LeaseNeed::RunsOut);
        assert_eq!(leases.poll(Some(at(9)), at(9)), None);
        assert!(leases.set(ALLOC, LeaseNeed::None));
        let ended = Effect::TendLeases {
            extend: Vec::new(),
            end: vec![ALLOC],
        };
        assert_eq!(leases.poll(Some(at(9)), at(9)), Some(ended));
        assert!(!leases.set(ALLOC, LeaseNeed::None), "it is none already");
    }

    #[test]
    fn the_journal_follows_in_steps_and_only_where_somebody_has_a_lease() {
        let mut leases = Leases::default();
        assert_eq!(leases.poll_journal(Some(at(5))), None);
        leases.set(ALLOC, LeaseNeed::Open(TERM));
        assert_eq!(leases.poll_journal(Some(at(5))), Some(at(5)));
        assert_eq!(leases.poll_journal(Some(at(6))), None);
        assert_eq!(leases.poll_journal(Some(at(7))), Some(at(7)));
    }
}
