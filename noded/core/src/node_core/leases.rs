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
//! more by itself: a group that cannot start ends none that runs. A new daemon does not know what
//! keeper holds, and nothing tells it: of what an earlier one left running it asks for everything,
//! and after a refusal for one at a time.

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

/// What keeper has of an allocation when the daemon starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// None of its runs.
    Nothing,
    /// Runs, dead or alive.
    Runs,
}

/// What keeper holds, as far as anybody knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holding {
    /// Nothing.
    Nothing,
    /// Runs that an earlier daemon left, and with them a lease most likely: a group that came to
    /// need one while it ran may have none.
    Believed,
    /// As before, and a request that named it was refused: it is asked for alone, once, so that
    /// none of those spoils another one's.
    Doubted,
    /// A lease until then: it has answered.
    Until(Moment),
}

/// One allocation that must not run without a lease.
#[derive(Clone, Copy, Debug)]
struct Member {
    need: LeaseNeed,
    holding: Holding,
    /// When its group came to need a lease; zero = before this daemon.
    since: Moment,
}

/// The leases of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    members: BTreeMap<AllocId, Member>,
    /// Keeper may hold these, and need not.
    ended: BTreeSet<AllocId>,
    in_flight: Option<BTreeMap<AllocId, Moment>>,
    /// Whether the newest request was for one alone: the others have their turn.
    asked_alone: bool,
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

    /// Keeper has runs of this allocation, as an earlier daemon left them.
    pub(super) fn restore(&mut self, alloc: AllocId, term: LeaseTerm) {
        let member = Member {
            need: LeaseNeed::Open(term),
            holding: Holding::Believed,
            since: Moment::default(),
        };
        self.members.insert(alloc, member);
    }

    /// Keeper may hold a lease that an earlier daemon asked for and that nobody needs any more.
    pub(super) fn end(&mut self, alloc: AllocId) {
        self.ended.insert(alloc);
    }

    /// What an allocation needs now. Returns whether it is no member any more.
    pub(super) fn set(&mut self, alloc: AllocId, need: LeaseNeed, now: Moment) -> bool {
        if need == LeaseNeed::None {
            let left = self.members.remove(&alloc).is_some();
            if left {
                self.ended.insert(alloc);
            }
            return left;
        }
        self.ended.remove(&alloc);
        let new = Member {
            need,
            holding: Holding::Nothing,
            since: now,
        };
        self.members.entry(alloc).or_insert(new).need = need;
        false
    }

    /// When an allocation's group came to need a lease; zero = before this daemon.
    pub(super) fn since(&self, alloc: AllocId) -> Moment {
        let member = self.members.get(&alloc);
        member.map(|member| member.since).unwrap_or_default()
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
        let extend = self.due(confirmed, now);
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

    /// What is to be asked for now, and until when.
    fn due(&mut self, confirmed: Option<Moment>, now: Moment) -> BTreeMap<AllocId, Moment> {
        let Some(confirmed) = confirmed else {
            return BTreeMap::new();
        };
        let (mut together, mut alone) = (BTreeMap::new(), None);
        for (alloc, member) in &self.members {
            let LeaseNeed::Open(term) = member.need else {
                continue;
            };
            let until = confirmed.after(term.whole);
            let fresh = now < confirmed.after(term.window);
            let due = match member.holding {
                // A lease that is over already lets nothing start.
                Holding::Nothing => fresh && now >= self.new_not_before,
                // Keeper's lease may be the longer one, since the journal is behind. Where it is
                // over by that, the group is being stopped, in all of its kill timeout.
                Holding::Believed | Holding::Doubted => fresh,
                // Its term became shorter. As before.
                Holding::Until(held) if held > until => fresh,
                Holding::Until(held) => held < until,
            };
            if due && member.holding == Holding::Doubted {
                alone = alone.or(Some((*alloc, until)));
            } else if due {
                together.insert(*alloc, until);
            }
        }
        let alone = alone.filter(|_| together.is_empty() || !self.asked_alone);
        self.asked_alone = alone.is_some();
        alone.map_or(together, |one| BTreeMap::from([one]))
    }

    /// Keeper answered. Returns the allocations that have a lease from now on and had none.
    pub(super) fn on_answer(&mut self, answer: LeasesAnswer, now: Moment) -> Vec<AllocId> {
        let asked = self.in_flight.take().unwrap_or_default();
        match answer {
            LeasesAnswer::Done => {}
            LeasesAnswer::Refused => {
                self.on_refused(&asked, now);
                return Vec::new();
            }
        }
        let mut granted = Vec::new();
        for (alloc, until) in asked {
            if let Some(member) = self.members.get_mut(&alloc) {
                match member.holding {
                    Holding::Nothing | Holding::Believed | Holding::Doubted => granted.push(alloc),
                    Holding::Until(_) => {}
                }
                member.holding = Holding::Until(until);
            }
        }
        granted
    }

    fn on_refused(&mut self, asked: &BTreeMap<AllocId, Moment>, now: Moment) {
        let (again, alone) = (now.after(AGAIN_AFTER), asked.len() == 1);
        let mut all_held = true;
        for alloc in asked.keys() {
            let Some(member) = self.members.get_mut(alloc) else {
                all_held = false;
                continue;
            };
            match member.holding {
                Holding::Until(_) => continue,
                // What keeper holds it does not refuse.
                Holding::Believed | Holding::Doubted if alone => {
                    member.holding = Holding::Nothing;
                }
                Holding::Believed | Holding::Doubted => member.holding = Holding::Doubted,
                Holding::Nothing => {}
            }
            all_held = false;
        }
        if all_held {
            self.not_before = again;
        }
        self.new_not_before = again;
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

    /// Keeper holds one lease, counted from then.
    fn held(confirmed: Moment) -> Leases {
        let mut leases = Leases::default();
        leases.set(ALLOC, LeaseNeed::Open(TERM), confirmed);
        assert!(leases.poll(Some(confirmed), confirmed).is_some());
        assert_eq!(leases.on_answer(LeasesAnswer::Done, confirmed), [ALLOC]);
        leases
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
        leases.set(ALLOC, LeaseNeed::Open(TERM), at(5));
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
        leases.set(ALLOC, LeaseNeed::Open(TERM), at(5));
        assert_eq!(leases.poll(Some(at(5)), at(21)), None);
        assert!(leases.poll(Some(at(20)), at(21)).is_some());
    }

    #[test]
    fn a_refusal_grants_nothing_and_is_tried_again_later() {
        let mut leases = Leases::default();
        leases.set(ALLOC, LeaseNeed::Open(TERM), at(5));
        assert!(leases.poll(Some(at(5)), at(5)).is_some());
        assert!(leases.on_answer(LeasesAnswer::Refused, at(5)).is_empty());
        assert_eq!(leases.poll(Some(at(5)), at(5)), None);
        assert!(leases.poll(Some(at(5)), at(6)).is_some());
        assert_eq!(leases.on_answer(LeasesAnswer::Done, at(6)), [ALLOC]);
    }

    #[test]
    fn what_keeper_cannot_take_anew_keeps_nobody_from_being_extended() {
        const NEW: AllocId = AllocId::from_u128(2);
        let mut leases = held(at(5));
        leases.set(NEW, LeaseNeed::Open(TERM), at(6));
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
    fn what_an_earlier_daemon_left_is_asked_for_and_one_that_keeper_lacks_spoils_no_other() {
        const LACKING: AllocId = AllocId::from_u128(2);
        let mut leases = Leases::default();
        leases.restore(LACKING, TERM);
        leases.restore(ALLOC, TERM);
        let both = extended(leases.poll(Some(at(5)), at(6)));
        assert_eq!(both, [(ALLOC, at(25)), (LACKING, at(25))]);
        assert!(leases.on_answer(LeasesAnswer::Refused, at(6)).is_empty());
        // One after the other, once each.
        let first = extended(leases.poll(Some(at(6)), at(6)));
        assert_eq!(first, [(ALLOC, at(26))]);
        assert_eq!(leases.on_answer(LeasesAnswer::Done, at(6)), [ALLOC]);
        let second = extended(leases.poll(Some(at(6)), at(6)));
        assert_eq!(second, [(LACKING, at(26))]);
        assert!(leases.on_answer(LeasesAnswer::Refused, at(6)).is_empty());
        let held = extended(leases.poll(Some(at(7)), at(6)));
        assert_eq!(held, [(ALLOC, at(27))]);
        leases.on_answer(LeasesAnswer::Done, at(6));
        assert_eq!(leases.poll(Some(at(7)), at(6)), None);
        // From now on as what is new.
        let again = extended(leases.poll(Some(at(7)), at(7)));
        assert_eq!(again, [(LACKING, at(27))]);
        assert_eq!(leases.on_answer(LeasesAnswer::Done, at(7)), [LACKING]);
    }

    #[test]
    fn what_is_asked_for_alone_and_what_keeper_holds_take_turns() {
        let doubted = [2, 3, 4].map(AllocId::from_u128);
        let mut leases = held(at(5));
        for alloc in doubted {
            leases.restore(alloc, TERM);
        }
        assert_eq!(extended(leases.poll(Some(at(6)), at(6))).len(), 4);
        assert!(leases.on_answer(LeasesAnswer::Refused, at(6)).is_empty());
        // Every request takes as long as it takes to confirm another heartbeat.
        let mut asked = Vec::new();
        for second in 7..12 {
            let extend = extended(leases.poll(Some(at(second)), at(second)));
            asked.push(extend.iter().map(|(alloc, _)| *alloc).collect::<Vec<_>>());
            leases.on_answer(LeasesAnswer::Done, at(second));
        }
        let [two, three, four] = doubted;
        let turns = [
            vec![two],
            vec![ALLOC, two],
            vec![three],
            vec![ALLOC, two, three],
            vec![four],
        ];
        assert_eq!(asked, turns);
    }

    #[test]
    fn a_term_that_became_shorter_is_keepers_too_unless_it_is_over_by_that() {
        const SHORTER: LeaseTerm = LeaseTerm {
            window: Duration::from_secs(6),
            whole: Duration::from_secs(10),
        };
        let mut leases = held(at(5));
        leases.set(ALLOC, LeaseNeed::Open(SHORTER), at(6));
        assert_eq!(leases.poll(Some(at(5)), at(11)), None);
        let shorter = extended(leases.poll(Some(at(5)), at(10)));
        assert_eq!(shorter, [(ALLOC, at(15))]);
        leases.on_answer(LeasesAnswer::Done, at(10));
        assert_eq!(leases.poll(Some(at(5)), at(10)), None);
    }

    #[test]
    fn what_runs_out_is_extended_no_more_and_what_is_dead_is_ended() {
        let mut leases = held(at(5));
        assert_eq!(leases.poll(Some(at(5)), at(5)), None, "keeper has it");
        leases.set(ALLOC, LeaseNeed::RunsOut, at(6));
        assert_eq!(leases.poll(Some(at(9)), at(9)), None);
        assert!(leases.set(ALLOC, LeaseNeed::None, at(9)));
        let ended = Effect::TendLeases {
            extend: Vec::new(),
            end: vec![ALLOC],
        };
        assert_eq!(leases.poll(Some(at(9)), at(9)), Some(ended));
        assert!(
            !leases.set(ALLOC, LeaseNeed::None, at(9)),
            "it is none already"
        );
    }

    #[test]
    fn the_journal_follows_in_steps_and_only_where_somebody_has_a_lease() {
        let mut leases = Leases::default();
        assert_eq!(leases.poll_journal(Some(at(5))), None);
        leases.set(ALLOC, LeaseNeed::Open(TERM), at(5));
        assert_eq!(leases.poll_journal(Some(at(5))), Some(at(5)));
        assert_eq!(leases.poll_journal(Some(at(6))), None);
        assert_eq!(leases.poll_journal(Some(at(7))), Some(at(7)));
    }
}
