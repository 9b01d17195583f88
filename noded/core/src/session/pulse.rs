//! How often a node shows that it is alive: often, until every answer has come in time for a while;
//! then seldom, until one is missing.
//!
//! ```text
//!            every answer of the last [`CALM_AFTER`]
//!   doubtful ---------------------------------------> calm
//!      ^  a heartbeat each interval                     |  ... each calm interval, once the
//!      +------------------------------------------------+      last one was answered
//!        no answer within an interval, cut off, a lease
//! ```
//!
//! The doubt begins an interval after the heartbeat that stays without an answer, whenever that was
//! sent, and the silence of a server is counted from then: one that stands for a moment is borne as
//! ever. What it saves is most of the packets of a cluster at rest.
//!
//! A server with too much to do asks for heartbeats that are no closer than its pace: else a moment
//! in which it is late would put all of its nodes in doubt, and their doubt would keep it late. One
//! that answers nothing for long is asked more rarely, for the same reason; and a node that is late
//! itself sends them more rarely, too.

use std::time::Duration;

use crate::time::Moment;

/// Intervals that one heartbeat covers at most: five answers in a row make a node calm at least.
const COVERED_MAX: u32 = 16;
/// As many heartbeats in a row have been answered before the next was due. Where a third of all
/// packets is lost that never happens.
const CALM_AFTER: u32 = 80;
/// More heartbeats than this say no more.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_DEFAULT: Duration = Duration::from_millis(125);

/// So many in a row stay without an answer before the interval is twice as long, and half as many
/// again before it is four times as long. Where a third of all packets is lost either way, that
/// happens once in ten million heartbeats: closer heartbeats are what keeps a node there.
const SLOWER_AFTER: u64 = 24;
/// A node that is late itself, for want of processor time, leaves as many times as much between
/// two of them, but no more than where nothing is in doubt.
const LATE_TIMES: u32 = 2;
/// The longest pace that a server may ask for.
const PACE_MAX: Duration = Duration::from_secs(5);

/// The heartbeats of a node.
#[derive(Clone, Debug)]
pub(super) struct Pulse {
    /// From one to the next, where anything is in doubt.
    interval: Duration,
    /// From one to the next, where nothing is.
    calm: Duration,
    /// The shortest time between two of them that the server can bear.
    pace: Duration,
    /// The newest one; they rise by one.
    tick: u64,
    sent: Moment,
    next: Moment,
    /// The newest that was answered.
    answered: u64,
    /// How much later than it was due the newest one was sent.
    late: Duration,
    /// How many were answered in time, one after the other.
    in_a_row: u32,
    /// How much longer than the interval the gap after the last answer is.
    rest: Duration,
    /// Something runs on a lease, which counts from a heartbeat.
    leased: bool,
}

impl Pulse {
    /// None was sent.
    pub(super) fn new(now: Moment) -> Self {
        Self {
            interval: INTERVAL_DEFAULT,
            calm: INTERVAL_DEFAULT,
            pace: Duration::ZERO,
            tick: 0,
            sent: now,
            next: now,
            answered: 0,
            late: Duration::ZERO,
            in_a_row: 0,
            rest: Duration::ZERO,
            leased: false,
        }
    }

    /// A session begins, with the intervals that its server asks for: the first one is due.
    pub(super) fn on_welcome(&mut self, interval: Duration, calm: Duration, now: Moment) {
        self.interval = interval.max(INTERVAL_MIN);
        self.calm = calm.max(self.interval);
        self.pace = Duration::ZERO;
        self.in_a_row = 0;
        self.rest = Duration::ZERO;
        self.next = now;
    }

    /// One is sent; its number.
    pub(super) fn beat(&mut self, now: Moment) -> u64 {
        self.in_a_row = match self.in_a_row {
            _ if self.answered != self.tick => 0,
            0 => 1,
            count => count.saturating_add(self.intervals_since_sent(now)),
        };
        self.late = match self.tick {
            0 => Duration::ZERO,
            _ => now.since(self.next),
        };
        self.tick += 1;
        self.sent = now;
        self.next = now.after(self.gap());
        self.tick
    }

    /// One was answered, by a server that reaches the leader or does not, and asks for this pace.
    /// Whether it is the newest answer until now: they overtake each other.
    pub(super) fn on_answer(&mut self, tick: u64, cut_off: bool, pace: Duration) -> bool {
        let is_newest = tick >= self.answered;
        self.answered = self.answered.max(tick.min(self.tick));
        self.rest = Duration::ZERO;
        if is_newest {
            self.pace = pace.min(PACE_MAX);
            self.next = self.sent.after(self.gap());
        }
        if cut_off {
            self.in_a_row = 0;
        } else if self.answered == self.tick && self.is_calm() {
            self.next = self.sent.after(self.calm.max(self.pace));
        }
        if self.answered == self.tick {
            // Nothing is asked until then: nothing is in doubt, or the node itself is late.
            self.rest = self.next.since(self.sent.after(self.closest()));
        }
        is_newest
    }

    /// Whether something runs on a lease. Then there is no rest: the more heartbeats there are, the
    /// later it ends where the way to the servers breaks.
    pub(super) fn set_leased(&mut self, leased: bool) {
        self.leased = leased;
        if leased {
            self.rest = Duration::ZERO;
            self.next = self.next.min(self.sent.after(self.closest()));
        }
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Moment {
        self.next
    }

    /// How long after the last answer a server has been silent for `span`, or has left `count`
    /// heartbeats without an answer where that takes longer. While the node rests it is not asked:
    /// that counts as no silence.
    pub(super) fn unheard_for(&self, span: Duration, count: u32) -> Duration {
        let unanswered = self.closest().saturating_mul(count);
        span.max(unanswered).saturating_add(self.rest)
    }

    /// How many intervals the newest one has covered: a node becomes calm after as many intervals
    /// where a server asks for rare heartbeats.
    fn intervals_since_sent(&self, now: Moment) -> u32 {
        let covered = now.since(self.sent).as_nanos() / self.interval.as_nanos().max(1);
        u32::try_from(covered)
            .unwrap_or(COVERED_MAX)
            .clamp(1, COVERED_MAX)
    }

    /// From one to the next, where anything is in doubt and the server answers.
    fn closest(&self) -> Duration {
        self.interval.max(self.pace)
    }

    /// The same for a node that was late with its last one, and for a server that does not answer.
    fn gap(&self) -> Duration {
        let own = self.late.saturating_mul(LATE_TIMES).min(self.calm);
        let gap = self.closest().max(own);
        gap.saturating_mul(self.slower())
    }

    /// When so many heartbeats can have been left without an answer, each for an interval: a node
    /// that is late itself has not sent them yet.
    pub(super) fn unanswered_at(&self, count: u32) -> Moment {
        let unanswered = u32::try_from(self.tick - self.answered).unwrap_or(u32::MAX);
        if unanswered > count {
            return self.sent;
        }
        let missing = count - unanswered;
        let rest = self.closest().saturating_mul(missing);
        self.sent.after(self.closest()).after(rest)
    }

    /// How many times as long it is while the server does not.
    fn slower(&self) -> u32 {
        match self.tick - self.answered {
            0..SLOWER_AFTER => 1,
            few if few < SLOWER_AFTER * 3 / 2 => 2,
            _ => 4,
        }
    }

    /// The number of the newest one.
    #[cfg(test)]
    pub(super) fn newest(&self) -> u64 {
        self.tick
    }

    fn is_calm(&self) -> bool {
        self.in_a_row >= CALM_AFTER && !self.leased
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(125);
    const CALM: Duration = Duration::from_millis(500);

    /// All heartbeats until now were answered at once, and nothing is in doubt.
    fn calm() -> Pulse {
        let mut pulse = Pulse::new(Moment::default());
        pulse.on_welcome(INTERVAL, CALM, Moment::default());
        for _ in 0..=CALM_AFTER {
            let gap = answered_gap(&mut pulse);
            assert!(gap == INTERVAL || pulse.is_calm(), "{gap:?}");
        }
        assert_eq!(answered_gap(&mut pulse), CALM);
        pulse
    }

    /// Sends the next one, which is answered; how long it is until the one after it.
    fn answered_gap(pulse: &mut Pulse) -> Duration {
        let tick = pulse.beat(pulse.next());
        assert!(pulse.on_answer(tick, false, Duration::ZERO));
        pulse.next().since(pulse.sent)
    }

    #[test]
    fn one_without_an_answer_ends_the_rest_within_an_interval() {
        let mut pulse = calm();
        let lost = pulse.next();
        pulse.beat(lost);
        assert_eq!(pulse.next(), lost.after(INTERVAL));
        assert_eq!(pulse.unheard_for(CALM, 1), 2 * CALM - INTERVAL);
        for _ in 0..CALM_AFTER {
            assert_eq!(answered_gap(&mut pulse), INTERVAL);
        }
        answered_gap(&mut pulse);
        assert_eq!(answered_gap(&mut pulse), CALM);
    }

    #[test]
    fn an_answer_that_comes_late_is_none() {
        let mut pulse = calm();
        let late = pulse.beat(pulse.next());
        pulse.beat(pulse.next());
        assert!(
            pulse.on_answer(late, false, Duration::ZERO),
            "the newest until now"
        );
        assert!(!pulse.is_calm());
        assert_eq!(pulse.next(), pulse.sent.after(INTERVAL));
    }

    #[test]
    fn who_is_welcomed_anew_or_told_that_its_server_is_cut_off_does_not_rest() {
        let mut welcomed = calm();
        welcomed.on_welcome(INTERVAL, CALM, welcomed.next());
        assert_eq!(answered_gap(&mut welcomed), INTERVAL);
        let mut cut_off = calm();
        let tick = cut_off.beat(cut_off.next());
        cut_off.on_answer(tick, true, Duration::ZERO);
        assert_eq!(cut_off.next(), cut_off.sent.after(INTERVAL));
        assert_eq!(answered_gap(&mut cut_off), INTERVAL);
    }

    #[test]
    fn a_lease_leaves_no_rest() {
        let mut pulse = calm();
        pulse.set_leased(true);
        assert_eq!(pulse.next(), pulse.sent.after(INTERVAL));
        assert_eq!(answered_gap(&mut pulse), INTERVAL);
        pulse.set_leased(false);
        assert_eq!(answered_gap(&mut pulse), CALM);
    }

    #[test]
    fn a_busy_server_is_sent_no_heartbeat_sooner_than_its_pace_allows() {
        let second = Duration::from_secs(1);
        let mut pulse = calm();
        let tick = pulse.beat(pulse.next());
        pulse.on_answer(tick, false, second);
        assert_eq!(
            pulse.next(),
            pulse.sent.after(second),
            "although it is calm"
        );
        let lost = pulse.next();
        pulse.beat(lost);
        assert_eq!(pulse.next(), lost.after(second), "although it is in doubt");
        pulse.set_leased(true);
        assert_eq!(pulse.next(), lost.after(second), "although it has a lease");
        assert_eq!(pulse.unheard_for(second, 4), 4 * second);
        let tick = pulse.beat(pulse.next());
        pulse.on_answer(tick, false, Duration::ZERO);
        assert_eq!(pulse.next(), pulse.sent.after(INTERVAL), "at once");
        pulse.beat(pulse.next());
        // An answer that was overtaken says nothing of now, and nothing is slower than this.
        pulse.on_answer(tick - 1, false, second);
        assert_eq!(pulse.closest(), INTERVAL);
        pulse.on_answer(tick, false, 100 * second);
        assert_eq!(pulse.closest(), 5 * second);
    }

    #[test]
    fn a_shorter_pace_makes_no_server_silent_before_the_next_heartbeat() {
        let pace = Duration::from_secs(2);
        let mut pulse = Pulse::new(Moment::default());
        pulse.on_welcome(INTERVAL, CALM, Moment::default());
        let tick = pulse.beat(pulse.next());
        pulse.on_answer(tick, false, 2 * pace);
        let tick = pulse.beat(pulse.next());
        pulse.on_answer(tick, false, pace);
        assert_eq!(pulse.next(), pulse.sent.after(pace));
        // Two of them have had the time to be answered by then.
        assert_eq!(pulse.unheard_for(CALM, 2), 2 * pace);
    }

    #[test]
    fn a_server_that_answers_nothing_for_long_is_asked_more_rarely() {
        let mut pulse = Pulse::new(Moment::default());
        pulse.on_welcome(INTERVAL, CALM, Moment::default());
        let mut gaps = Vec::new();
        for _ in 0..40 {
            pulse.beat(pulse.next());
            gaps.push(pulse.next().since(pulse.sent));
        }
        let count = |gap| gaps.iter().filter(|it| **it == gap).count();
        assert_eq!(count(INTERVAL), 23);
        assert_eq!(count(2 * INTERVAL), 12);
        assert_eq!(count(4 * INTERVAL), 5);
        assert!(gaps.is_sorted());
    }

    #[test]
    fn a_node_that_is_late_itself_sends_fewer_but_no_fewer_than_a_calm_one() {
        let mut pulse = Pulse::new(Moment::default());
        pulse.on_welcome(INTERVAL, CALM, Moment::default());
        pulse.beat(Moment::default());
        for (late, gap) in [(0, 125), (50, 125), (100, 200), (10_000, 500), (0, 125)] {
            pulse.beat(pulse.next().after(Duration::from_millis(late)));
            let next = pulse.next().since(pulse.sent);
            assert_eq!(next, Duration::from_millis(gap), "{late} ms late");
        }
    }

    #[test]
    fn a_heartbeat_that_was_not_sent_yet_is_not_unanswered() {
        let mut pulse = Pulse::new(Moment::default());
        pulse.on_welcome(INTERVAL, CALM, Moment::default());
        pulse.beat(Moment::default());
        assert_eq!(
            pulse.unanswered_at(4),
            Moment::default().after(4 * INTERVAL)
        );
        for _ in 0..3 {
            pulse.beat(pulse.next());
        }
        assert_eq!(pulse.unanswered_at(4), pulse.sent.after(INTERVAL));
        pulse.beat(pulse.next());
        assert_eq!(pulse.unanswered_at(4), pulse.sent);
    }

    #[test]
    fn a_node_becomes_calm_in_ten_seconds_however_rare_heartbeats_are() {
        for (pace, answers) in [(0, 80), (1_000, 11), (4_000, 6)] {
            let mut pulse = Pulse::new(Moment::default());
            pulse.on_welcome(INTERVAL, CALM, Moment::default());
            let mut count = 0;
            while !pulse.is_calm() {
                let tick = pulse.beat(pulse.next());
                pulse.on_answer(tick, false, Duration::from_millis(pace));
                count += 1;
            }
            assert_eq!(count, answers, "{pace} ms");
        }
    }

    #[test]
    fn the_calm_interval_is_never_shorter_than_the_other() {
        let mut pulse = Pulse::new(Moment::default());
        let second = Duration::from_secs(1);
        pulse.on_welcome(second, Duration::ZERO, Moment::default());
        assert_eq!(pulse.unheard_for(second, 4), 4 * second);
        pulse.on_welcome(Duration::ZERO, Duration::ZERO, Moment::default());
        pulse.beat(Moment::default());
        assert_eq!(pulse.next(), Moment::default().after(INTERVAL_MIN));
    }
}
