//! The evaluation broker: which evaluation is scheduled next, one per job at a time, until somebody
//! says that it is done.
//!
//! ```text
//!            enqueue                 dequeue                 ack
//!   (new) ----------> ready --------------------> in flight -----> (gone)
//!     |  wait_until     ^  job busy: waiting ------^   |
//!     +--> delayed -----+                              | nack, or no answer in time
//!                       ^                              v
//!                       +---- delayed 1 s, 20 s, ... --+--> failed, after three deliveries
//!
//!   in flight --requeue: its plan was overtaken--> ready
//!   in flight --park: plans in flight take the room that it needs--> parked --unpark--> ready
//! ```
//!
//! At-least-once: a worker that dies is noticed by its deadline, and its evaluation is handed out
//! again with another token. When a job's evaluation ends, the one that waits with the highest
//! priority (the newest among equals) goes next and the older ones are cancelled: it will see
//! everything that they would have seen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::NodeRejected;
use protocol_model::{EvalId, Evaluation, JobKey};

use crate::time::Now;

/// How long a worker may take before its evaluation is handed to another (as Nomad).
pub const ANSWER_MAX: Duration = Duration::from_secs(60);
/// How often an evaluation is handed out before it counts as failed (as Nomad).
pub const DELIVERIES_MAX: u32 = 3;
/// The wait after the first refusal; the n-th further one waits `(n-1)` times the longer one.
const NACK_FIRST: Duration = Duration::from_secs(1);
const NACK_FURTHER: Duration = Duration::from_secs(20);

/// How many times in a row an overtaken evaluation is ready again at once. From then on something
/// else is wrong, and a pause keeps it from using up a worker...
pub const AT_ONCE_MAX: u32 = 16;
/// ...of this length.
const OVERTAKEN_PAUSE: Duration = Duration::from_millis(100);

/// The plans of an evaluation that were overtaken: refused, wholly or in part, because the state
/// had changed since they were decided.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overtaken {
    /// How many plans.
    pub times: u32,
    /// How many of their placements were refused.
    pub placements: usize,
    /// One of the nodes of the last refusal, and the reason.
    pub last: Option<NodeRejected>,
}

/// Proof of a delivery: only its holder may end it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(u64);

/// An evaluation handed to a worker.
#[derive(Clone, PartialEq, Debug)]
pub struct Delivery {
    /// What to schedule.
    pub eval: Arc<Evaluation>,
    /// To be given back with the answer.
    pub token: Token,
    /// Its plans that were overtaken so far.
    pub overtaken: Overtaken,
}

/// What became of a refused evaluation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nacked {
    /// It will be handed out again after a pause.
    Again,
    /// It was handed out too often: see [`EvalBroker::take_failed`].
    Failed,
    /// The delivery is not the newest one: nothing happened.
    Stale,
}

/// How much the broker holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BrokerStats {
    /// Could be handed out now.
    pub ready: usize,
    /// With workers.
    pub in_flight: usize,
    /// Behind another evaluation of their job.
    pub waiting: usize,
    /// Not before their time, or not before a plan in flight is over.
    pub delayed: usize,
}

/// See the top of this file.
#[derive(Debug, Default)]
pub struct EvalBroker {
    evals: BTreeMap<EvalId, Entry>,
    /// Highest priority first, then the oldest.
    ready: BTreeSet<(Reverse<i32>, u64, EvalId)>,
    /// By the moment at which they become ready.
    delayed: BTreeSet<(Duration, EvalId)>,
    in_flight: BTreeMap<EvalId, InFlight>,
    deadlines: BTreeSet<(Duration, EvalId)>,
    /// Ready as soon as a plan in flight is over.
    parked: BTreeSet<EvalId>,
    /// The evaluation of a job that is ready, in flight or delayed after a refusal.
    busy: BTreeMap<JobKey, EvalId>,
    /// Behind it: highest priority first, then the newest.
    waiting: BTreeMap<JobKey, BTreeSet<WaitingKey>>,
    /// How many that are, of all jobs together.
    waiting_count: usize,
    cancelled: VecDeque<Arc<Evaluation>>,
    failed: VecDeque<Arc<Evaluation>>,
    next_token: u64,
}

/// Highest priority first, then the newest.
type WaitingKey = (Reverse<i32>, Reverse<u64>, EvalId);

#[derive(Debug)]
struct Entry {
    eval: Arc<Evaluation>,
    deliveries: u32,
    /// Its place among the delayed ones.
    delayed_until: Option<Duration>,
    overtaken: Overtaken,
}

#[derive(Debug)]
struct InFlight {
    token: Token,
    deadline: Duration,
}

impl EvalBroker {
    /// Nothing to do.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an evaluation in. One that is here already is left where it is.
    pub fn enqueue(&mut self, eval: &Arc<Evaluation>, now: Now) {
        let id = eval.id;
        if self.evals.contains_key(&id) {
            return;
        }
        let later = eval.wait_until.filter(|at| *at > now.wall);
        self.evals.insert(
            id,
            Entry {
                eval: Arc::clone(eval),
                deliveries: 0,
                delayed_until: None,
                overtaken: Overtaken::default(),
            },
        );
        match later {
            Some(at) => self.delay(id, now.monotonic_of(at)),
            None => self.admit(eval),
        }
    }

    /// The next evaluation, if there is one.
    pub fn dequeue(&mut self, now: Now) -> Option<Delivery> {
        let (_, _, id) = self.ready.pop_first()?;
        let entry = self.evals.get_mut(&id)?;
        entry.deliveries += 1;
        self.next_token += 1;
        let token = Token(self.next_token);
        let deadline = now.monotonic + ANSWER_MAX;
        self.in_flight.insert(id, InFlight { token, deadline });
        self.deadlines.insert((deadline, id));
        Some(Delivery {
            eval: Arc::clone(&entry.eval),
            token,
            overtaken: entry.overtaken.clone(),
        })
    }

    /// A worker still works: its plan waits for the log. Its deadline begins anew.
    pub fn extend(&mut self, id: EvalId, token: Token, now: Now) {
        if let Some(flight) = self
            .in_flight
            .get_mut(&id)
            .filter(|flight| flight.token == token)
        {
            self.deadlines.remove(&(flight.deadline, id));
            flight.deadline = now.monotonic + ANSWER_MAX;
            self.deadlines.insert((flight.deadline, id));
        }
    }

    /// Whether this delivery is the newest of its evaluation.
    pub fn holds(&self, id: EvalId, token: Token) -> bool {
        self.in_flight
            .get(&id)
            .is_some_and(|flight| flight.token == token)
    }

    /// An evaluation is done. `false` where the delivery is not the newest one.
    pub fn ack(&mut self, id: EvalId, token: Token) -> bool {
        if !self.holds(id, token) {
            return false;
        }
        self.remove(id);
        true
    }

    /// An evaluation could not be done.
    pub fn nack(&mut self, id: EvalId, token: Token, now: Now) -> Nacked {
        if !self.holds(id, token) {
            return Nacked::Stale;
        }
        self.give_up(id, now)
    }

    /// The plan of an evaluation was overtaken: it goes back to its queue, and the delivery does
    /// not count. `false` where the delivery is not the newest one.
    pub fn requeue(
        &mut self,
        id: EvalId,
        token: Token,
        refused: usize,
        by: Option<NodeRejected>,
        now: Now,
    ) -> bool {
        let Some(times) = self.undeliver(id, token).map(|overtaken| {
            overtaken.times = overtaken.times.saturating_add(1);
            overtaken.placements = overtaken.placements.saturating_add(refused);
            overtaken.last = by.or_else(|| overtaken.last.take());
            overtaken.times
        }) else {
            return false;
        };
        if times > AT_ONCE_MAX {
            self.delay(id, now.monotonic + OVERTAKEN_PAUSE);
        } else {
            self.make_ready(id);
        }
        true
    }

    /// An evaluation waits until [`Self::unpark`], and the delivery does not count. `false` where
    /// it is not the newest one.
    pub fn park(&mut self, id: EvalId, token: Token) -> bool {
        let parks = self.undeliver(id, token).is_some();
        if parks {
            self.parked.insert(id);
        }
        parks
    }

    /// Parked evaluations become ready.
    pub fn unpark(&mut self) {
        for id in std::mem::take(&mut self.parked) {
            self.make_ready(id);
        }
    }

    /// Takes a delivery back.
    fn undeliver(&mut self, id: EvalId, token: Token) -> Option<&mut Overtaken> {
        if !self.holds(id, token) {
            return None;
        }
        self.land(id);
        let entry = self.evals.get_mut(&id)?;
        entry.deliveries = entry.deliveries.saturating_sub(1);
        Some(&mut entry.overtaken)
    }

    fn make_ready(&mut self, id: EvalId) {
        if let Some(entry) = self.evals.get(&id) {
            self.ready.insert(ready_key(&entry.eval));
        }
    }

    /// The state says that an evaluation is over: it leaves the broker wherever it is.
    pub fn remove(&mut self, id: EvalId) {
        let Some(entry) = self.evals.remove(&id) else {
            return;
        };
        let eval = entry.eval;
        self.land(id);
        self.parked.remove(&id);
        self.ready.remove(&ready_key(&eval));
        if let Some(until) = entry.delayed_until {
            self.delayed.remove(&(until, id));
        }
        let job = eval.job_key();
        if let Some(waiting) = self.waiting.get_mut(&job)
            && waiting.remove(&waiting_key(&eval))
        {
            self.waiting_count -= 1;
        }
        if self.busy.get(&job) == Some(&id) {
            self.busy.remove(&job);
            self.promote(&job);
        }
        if self.waiting.get(&job).is_some_and(BTreeSet::is_empty) {
            self.waiting.remove(&job);
        }
    }

    /// Lets time pass: delayed evaluations become ready, unanswered ones are handed out again.
    pub fn on_timeout(&mut self, now: Now) {
        while let Some((at, id)) = self
            .delayed
            .first()
            .copied()
            .filter(|(at, _)| *at <= now.monotonic)
        {
            self.delayed.remove(&(at, id));
            let Some(entry) = self.evals.get_mut(&id) else {
                continue;
            };
            entry.delayed_until = None;
            let eval = Arc::clone(&entry.eval);
            match eval.wait_until.filter(|at| *at > now.wall) {
                // The wall clock was set back meanwhile. Whoever decides goes by it too: it would
                // find nothing to do yet, and nobody would come again.
                Some(at) => self.delay(id, now.monotonic_of(at)),
                None => self.admit(&eval),
            }
        }
        while let Some((_, id)) = self
            .deadlines
            .first()
            .copied()
            .filter(|(deadline, _)| *deadline <= now.monotonic)
        {
            self.give_up(id, now);
        }
    }

    /// When [`Self::on_timeout`] has something to do, by the monotonic clock.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let delayed = self.delayed.first().map(|(at, _)| *at);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        delayed.into_iter().chain(deadline).min()
    }

    /// Evaluations that a newer one of their job makes needless, at most `count_max`.
    pub fn take_cancelled(&mut self, count_max: usize) -> Vec<Arc<Evaluation>> {
        let count = self.cancelled.len().min(count_max);
        self.cancelled.drain(..count).collect()
    }

    /// Evaluations that were handed out too often, at most `count_max`.
    pub fn take_failed(&mut self, count_max: usize) -> Vec<Arc<Evaluation>> {
        let count = self.failed.len().min(count_max);
        self.failed.drain(..count).collect()
    }

    /// How much it holds.
    pub fn stats(&self) -> BrokerStats {
        BrokerStats {
            ready: self.ready.len(),
            in_flight: self.in_flight.len(),
            waiting: self.waiting_count,
            delayed: self.delayed.len() + self.parked.len(),
        }
    }

    /// Ready, or behind the evaluation that its job is busy with.
    fn admit(&mut self, eval: &Evaluation) {
        let job = eval.job_key();
        match self.busy.get(&job) {
            Some(busy) if *busy != eval.id => {
                let waiting = self.waiting.entry(job).or_default();
                if waiting.insert(waiting_key(eval)) {
                    self.waiting_count += 1;
                }
            }
            _ => {
                self.busy.insert(job, eval.id);
                self.ready.insert(ready_key(eval));
            }
        }
    }

    /// The best of those that wait goes next; the others are needless.
    fn promote(&mut self, job: &JobKey) {
        let Some(mut waiting) = self.waiting.remove(job) else {
            return;
        };
        self.waiting_count -= waiting.len();
        let Some((_, _, next)) = waiting.pop_first() else {
            return;
        };
        for (_, _, id) in waiting {
            if let Some(entry) = self.evals.remove(&id) {
                self.cancelled.push_back(entry.eval);
            }
        }
        if let Some(eval) = self.evals.get(&next).map(|entry| Arc::clone(&entry.eval)) {
            self.busy.insert(job.clone(), next);
            self.ready.insert(ready_key(&eval));
        }
    }

    /// Ends a delivery without an answer that counts.
    fn give_up(&mut self, id: EvalId, now: Now) -> Nacked {
        self.land(id);
        let Some(entry) = self.evals.get(&id) else {
            return Nacked::Stale;
        };
        let eval = Arc::clone(&entry.eval);
        if entry.deliveries >= DELIVERIES_MAX {
            self.remove(id);
            self.failed.push_back(eval);
            return Nacked::Failed;
        }
        let pause = match entry.deliveries {
            0 | 1 => NACK_FIRST,
            further => NACK_FURTHER * (further - 1),
        };
        self.delay(id, now.monotonic + pause);
        Nacked::Again
    }

    fn delay(&mut self, id: EvalId, until: Duration) {
        if let Some(entry) = self.evals.get_mut(&id) {
            entry.delayed_until = Some(until);
            self.delayed.insert((until, id));
        }
    }

    fn land(&mut self, id: EvalId) {
        if let Some(flight) = self.in_flight.remove(&id) {
            self.deadlines.remove(&(flight.deadline, id));
        }
    }
}

fn ready_key(eval: &Evaluation) -> (Reverse<i32>, u64, EvalId) {
    (Reverse(eval.priority), eval.create_index, eval.id)
}

fn waiting_key(eval: &Evaluation) -> WaitingKey {
    (Reverse(eval.priority), Reverse(eval.create_index), eval.id)
}

#[cfg(test)]
mod tests {
    use protocol_model::{EvalTrigger, JobType, UnixNanos};

    use super::*;

    fn eval(number: u128, job: &str, priority: i32) -> Arc<Evaluation> {
        let mut eval = Evaluation::new(
            EvalId::from_u128(number),
            &JobKey::new("default", job),
            JobType::Service,
            priority,
            EvalTrigger::JobRegister,
            UnixNanos::ZERO,
        );
        eval.create_index = u64::try_from(number).expect("small");
        Arc::new(eval)
    }

    fn at(seconds: u64) -> Now {
        Now::default().plus(Duration::from_secs(seconds))
    }

    fn next(broker: &mut EvalBroker, now: Now) -> Option<u128> {
        broker
            .dequeue(now)
            .map(|delivery| delivery.eval.id.0.as_u128())
    }

    #[test]
    fn higher_priorities_go_first_and_equals_in_order() {
        let mut broker = EvalBroker::new();
        for (number, job, priority) in [(1, "a", 50), (2, "b", 90), (3, "c", 50)] {
            broker.enqueue(&eval(number, job, priority), at(0));
        }
        assert_eq!(next(&mut broker, at(0)), Some(2));
        assert_eq!(next(&mut broker, at(0)), Some(1));
        assert_eq!(next(&mut broker, at(0)), Some(3));
        assert_eq!(next(&mut broker, at(0)), None);
    }

    #[test]
    fn a_job_is_with_one_worker_at_a_time_and_older_evaluations_become_needless() {
        let mut broker = EvalBroker::new();
        for number in 1..=4 {
            broker.enqueue(&eval(number, "a", 50), at(0));
        }
        let first = broker.dequeue(at(0)).expect("one is ready");
        assert_eq!(next(&mut broker, at(0)), None);
        assert!(broker.ack(first.eval.id, first.token));
        assert_eq!(
            next(&mut broker, at(0)),
            Some(4),
            "the newest of those that waited"
        );
        let cancelled: Vec<_> = broker
            .take_cancelled(10)
            .iter()
            .map(|eval| eval.id.0.as_u128())
            .collect();
        assert_eq!(cancelled, [3, 2]);
    }

    #[test]
    fn how_many_wait_is_known_without_looking_at_them() {
        let mut broker = EvalBroker::new();
        let waiting = |broker: &EvalBroker| broker.stats().waiting;
        for number in 1..=4 {
            broker.enqueue(&eval(number, "a", 50), at(0));
            broker.enqueue(&eval(10 + number, "b", 50), at(0));
        }
        assert_eq!(waiting(&broker), 6);
        broker.enqueue(&eval(2, "a", 50), at(0));
        assert_eq!(waiting(&broker), 6, "it was here already");
        broker.remove(EvalId::from_u128(3));
        broker.remove(EvalId::from_u128(3));
        assert_eq!(waiting(&broker), 5);
        // Its end promotes one of those behind it and makes the other needless.
        broker.remove(EvalId::from_u128(1));
        assert_eq!(waiting(&broker), 3);
        broker.remove(EvalId::from_u128(4));
        broker.remove(EvalId::from_u128(11));
        assert_eq!(waiting(&broker), 0);
        broker.remove(EvalId::from_u128(14));
        assert_eq!(broker.stats(), BrokerStats::default());
    }

    #[test]
    fn an_unanswered_evaluation_is_handed_out_again_with_another_token() {
        let mut broker = EvalBroker::new();
        broker.enqueue(&eval(1, "a", 50), at(0));
        let first = broker.dequeue(at(0)).expect("ready");
        assert_eq!(broker.poll_timeout(), Some(ANSWER_MAX));
        broker.on_timeout(at(60));
        broker.on_timeout(at(61));
        let second = broker.dequeue(at(61)).expect("ready again");
        assert!(
            !broker.ack(first.eval.id, first.token),
            "the first delivery is void"
        );
        assert!(broker.ack(second.eval.id, second.token));
        assert_eq!(broker.stats(), BrokerStats::default());
    }

    #[test]
    fn an_evaluation_that_is_refused_three_times_has_failed() {
        let mut broker = EvalBroker::new();
        broker.enqueue(&eval(1, "a", 50), at(0));
        let mut now = 0;
        for expected in [Nacked::Again, Nacked::Again, Nacked::Failed] {
            let delivery = broker.dequeue(at(now)).expect("ready");
            assert_eq!(
                broker.nack(delivery.eval.id, delivery.token, at(now)),
                expected
            );
            now += 100;
            broker.on_timeout(at(now));
        }
        assert_eq!(broker.take_failed(10).len(), 1);
        assert_eq!(next(&mut broker, at(now)), None);
    }

    #[test]
    fn an_overtaken_evaluation_is_ready_at_once_and_never_fails_by_it() {
        let mut broker = EvalBroker::new();
        broker.enqueue(&eval(1, "a", 50), at(0));
        let mut now = at(0);
        for times in 0..50 {
            broker.on_timeout(now);
            let Delivery {
                eval,
                token,
                overtaken,
            } = broker.dequeue(now).expect("ready");
            assert_eq!(
                (overtaken.times, overtaken.placements),
                (times, 2 * times as usize)
            );
            assert!(broker.requeue(eval.id, token, 2, None, now));
            assert!(!broker.requeue(eval.id, token, 2, None, now));
            if times >= AT_ONCE_MAX {
                assert_eq!(broker.stats().ready, 0, "something else is wrong");
                now = now.plus(OVERTAKEN_PAUSE);
            }
        }
        assert_eq!(broker.take_failed(10).len(), 0);
        // A worker that dies has as many deliveries left as before.
        for expected in [Nacked::Again, Nacked::Again, Nacked::Failed] {
            now = now.plus(Duration::from_secs(60));
            broker.on_timeout(now);
            let delivery = broker.dequeue(now).expect("ready");
            let nacked = broker.nack(delivery.eval.id, delivery.token, now);
            assert_eq!(nacked, expected);
        }
    }

    #[test]
    fn a_parked_evaluation_is_ready_when_it_is_unparked_and_not_before() {
        let mut broker = EvalBroker::new();
        broker.enqueue(&eval(1, "a", 50), at(0));
        broker.enqueue(&eval(2, "b", 50), at(0));
        for _ in 0..2 {
            let delivery = broker.dequeue(at(0)).expect("ready");
            assert!(broker.park(delivery.eval.id, delivery.token));
        }
        broker.on_timeout(at(600));
        assert_eq!(next(&mut broker, at(600)), None);
        assert_eq!(broker.stats().delayed, 2);
        broker.remove(EvalId::from_u128(2));
        broker.unpark();
        assert_eq!(next(&mut broker, at(600)), Some(1));
        assert_eq!(next(&mut broker, at(600)), None);
    }

    #[test]
    fn an_evaluation_with_a_time_waits_for_it() {
        let mut broker = EvalBroker::new();
        let mut later = Evaluation::clone(&eval(1, "a", 50));
        later.wait_until = Some(UnixNanos(5_000_000_000));
        broker.enqueue(&Arc::new(later), at(0));
        assert_eq!(next(&mut broker, at(0)), None);
        broker.on_timeout(at(5));
        assert_eq!(next(&mut broker, at(5)), Some(1));
    }

    #[test]
    fn a_wall_clock_that_was_set_back_does_not_bring_an_evaluation_before_its_time() {
        let mut broker = EvalBroker::new();
        let mut later = Evaluation::clone(&eval(1, "a", 50));
        later.wait_until = Some(UnixNanos(5_000_000_000));
        broker.enqueue(&Arc::new(later), at(0));
        let set_back = Now {
            wall: at(2).wall,
            ..at(5)
        };
        broker.on_timeout(set_back);
        assert_eq!(next(&mut broker, set_back), None);
        assert_eq!(broker.poll_timeout(), Some(Duration::from_secs(8)));
        let due = set_back.plus(Duration::from_secs(3));
        broker.on_timeout(due);
        assert_eq!(next(&mut broker, due), Some(1));
    }

    #[test]
    fn what_the_state_ended_leaves_and_the_next_of_its_job_moves_up() {
        let mut broker = EvalBroker::new();
        broker.enqueue(&eval(1, "a", 50), at(0));
        broker.enqueue(&eval(2, "a", 50), at(0));
        broker.remove(EvalId::from_u128(1));
        assert_eq!(next(&mut broker, at(0)), Some(2));
    }
}
