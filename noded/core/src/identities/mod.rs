//! Identities of tasks on this node: asked of a server, held, renewed.
//!
//! ```text
//!   want, pause, forget --> one Entry per identity --> Ask { query, names }   (<= 256 names)
//!   on_answer, on_failure ----^        |
//!                                      `--> Signed, Rejected, Expired
//! ```
//!
//! Questions leave in rounds, at most one every 50 ms: the first want leaves at once, those within
//! the next 50 ms travel together. A question without an answer is given up after 15 s. Renewal
//! counts from the arrival of a token by the node's own clock, so that clocks may differ.
//!
//! | limit | value | effect |
//! |---|---|---|
//! | names in one question | 256 | the rest goes with another one |
//! | questions under way | 16 | the rest waits for an answer |

mod entry;
pub mod kept;
#[cfg(test)]
mod tests;
mod token;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use protocol_model::AllocId;

use crate::pseudo_random::mix;
use crate::time::{Moment, earliest};
pub use entry::{Delivery, RENEWAL_MIN, RETRY_MAX, RETRY_MIN};
use entry::{Entry, Interest};
pub use token::{
    DEFAULT_IDENTITY, HeldToken, IdentityKey, IdentityRejection, Jwt, SignedToken, name_of,
    shown_identities,
};

/// Names in one question.
pub const NAMES_MAX: usize = 256;
/// Questions under way: as many as a server takes of one node.
pub const QUERIES_MAX: usize = 16;
/// From one round of questions to the next.
pub const ROUND_MIN: Duration = Duration::from_millis(50);
/// How long an answer is waited for: the server waits up to 5 s for the index of the node's watch.
pub const ANSWER_MAX: Duration = Duration::from_secs(15);

/// The number of a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueryId(pub u64);

/// A step for the shell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IdentityStep {
    /// Ask the server. Answer: [`Identities::on_answer`] or [`Identities::on_failure`].
    Ask {
        /// The question.
        query: QueryId,
        /// The identities, in the order of the answer.
        names: Vec<IdentityKey>,
    },
    /// A token came.
    Signed {
        /// The identity.
        key: IdentityKey,
        /// Whether it takes the place of another one.
        delivery: Delivery,
    },
    /// A server signs no token for it now. It is asked again.
    Rejected {
        /// The identity.
        key: IdentityKey,
        /// Why.
        rejection: IdentityRejection,
    },
    /// Its token expired before a newer one came. Told once for each token.
    Expired {
        /// The identity.
        key: IdentityKey,
    },
}

/// A question under way.
#[derive(Clone, Debug)]
struct Question {
    names: Vec<IdentityKey>,
    deadline: Moment,
}

/// All identities of a node.
#[derive(Clone, Debug)]
pub struct Identities {
    seed: u64,
    entries: BTreeMap<IdentityKey, Entry>,
    /// When entries are to be asked for.
    due: BTreeSet<(Moment, IdentityKey)>,
    /// When their tokens expire.
    expiries: BTreeSet<(Moment, IdentityKey)>,
    questions: BTreeMap<QueryId, Question>,
    last_query: u64,
    /// Before this moment no question leaves.
    next_round: Moment,
    is_live: bool,
    steps: VecDeque<IdentityStep>,
}

impl Identities {
    /// No identities. `seed` differs from daemon to daemon.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            expiries: BTreeSet::new(),
            questions: BTreeMap::new(),
            last_query: 0,
            next_round: Moment::default(),
            is_live: false,
            steps: VecDeque::new(),
        }
    }

    /// A token that an earlier daemon of this boot held. It is renewed once a run wants it.
    pub fn restore(&mut self, key: IdentityKey, token: HeldToken) {
        let entry = Entry::restored(token, self.seed_of(&key));
        self.put(key, entry);
    }

    /// A run of the task wants the identity, signed by the root key `root_key` (0 = none is named).
    pub fn want(&mut self, key: IdentityKey, root_key: u32, now: Moment) {
        let entry = match self.take(&key) {
            Some(mut entry) => {
                entry.want(root_key, now);
                entry
            }
            None => Entry::wanted(root_key, self.seed_of(&key), now),
        };
        self.put(key, entry);
        self.ask(now);
    }

    /// No run of the task lives: its identities are held, and not renewed.
    pub fn pause(&mut self, alloc: AllocId, task: &str) {
        for key in self.keys_of(alloc, Some(task)) {
            self.change(&key, |entry| entry.interest = Interest::Paused);
        }
    }

    /// The allocation needs no identity any more.
    pub fn forget(&mut self, alloc: AllocId) {
        for key in self.keys_of(alloc, None) {
            self.take(&key);
        }
    }

    /// The token of an identity.
    pub fn token(&self, key: &IdentityKey) -> Option<&HeldToken> {
        self.entries.get(key).and_then(Entry::token)
    }

    /// Every token of an allocation.
    pub fn held(&self, alloc: AllocId) -> impl Iterator<Item = (&IdentityKey, &HeldToken)> {
        self.range(alloc, None)
            .filter_map(|(key, entry)| Some((key, entry.token()?)))
    }

    /// A session that answers questions has begun, or ended.
    pub fn on_session(&mut self, is_live: bool, now: Moment) {
        for (query, question) in std::mem::take(&mut self.questions) {
            for key in question.names {
                self.change_of(&key, query, |entry| entry.on_lost(now));
            }
        }
        self.is_live = is_live;
        if is_live {
            let waiting: Vec<IdentityKey> = self.due.iter().map(|(_, key)| key.clone()).collect();
            for key in waiting {
                self.change(&key, |entry| entry.hurry(now));
            }
        }
        self.ask(now);
    }

    /// The answer to a question, in the order of its names; one that is too short counts as failed.
    /// An answer to a question that was given up changes nothing.
    pub fn on_answer(
        &mut self,
        query: QueryId,
        results: Vec<Result<SignedToken, IdentityRejection>>,
        now: Moment,
    ) {
        let Some(question) = self.questions.remove(&query) else {
            return;
        };
        let mut results = results.into_iter();
        for key in question.names {
            match results.next() {
                Some(Ok(signed)) => {
                    let delivered =
                        self.change_of(&key, query, |entry| entry.on_signed(signed, now));
                    if let Some(delivery) = delivered {
                        self.steps.push_back(IdentityStep::Signed { key, delivery });
                    }
                }
                Some(Err(rejection)) => {
                    let failed = self.change_of(&key, query, |entry| entry.on_failed(now));
                    if failed.is_some() {
                        self.steps
                            .push_back(IdentityStep::Rejected { key, rejection });
                    }
                }
                None => drop(self.change_of(&key, query, |entry| entry.on_failed(now))),
            }
        }
        self.ask(now);
    }

    /// A question has no answer.
    pub fn on_failure(&mut self, query: QueryId, now: Moment) {
        self.on_answer(query, Vec::new(), now);
    }

    /// A deadline has come.
    pub fn on_timeout(&mut self, now: Moment) {
        let overdue = self.questions.iter();
        let overdue: Vec<QueryId> = overdue
            .filter(|(_, question)| question.deadline <= now)
            .map(|(query, _)| *query)
            .collect();
        for query in overdue {
            self.on_failure(query, now);
        }
        while let Some((at, key)) = self.expiries.first().cloned()
            && at <= now
        {
            self.change(&key, Entry::on_expiry_told);
            self.steps.push_back(IdentityStep::Expired { key });
        }
        self.ask(now);
    }

    /// When [`Self::on_timeout`] is next due.
    pub fn poll_timeout(&self) -> Option<Moment> {
        let may_ask = self.is_live && self.questions.len() < QUERIES_MAX;
        let due = self.due.first().filter(|_| may_ask);
        let round = due.map(|(at, _)| (*at).max(self.next_round));
        let deadline = self.questions.values().map(|it| it.deadline).min();
        let expiry = self.expiries.first().map(|(at, _)| *at);
        earliest(earliest(round, deadline), expiry)
    }

    /// The next step; drain it after every call.
    pub fn poll_step(&mut self) -> Option<IdentityStep> {
        self.steps.pop_front()
    }

    /// Asks for everything that is due, if a round may leave.
    fn ask(&mut self, now: Moment) {
        if !self.is_live || now < self.next_round {
            return;
        }
        while self.questions.len() < QUERIES_MAX {
            let due = self.due.iter().take_while(|(at, _)| *at <= now);
            let names: Vec<IdentityKey> = due.take(NAMES_MAX).map(|(_, key)| key.clone()).collect();
            if names.is_empty() {
                return;
            }
            self.last_query += 1;
            let query = QueryId(self.last_query);
            for key in &names {
                self.change(key, |entry| entry.ask(query));
            }
            let deadline = now.after(ANSWER_MAX);
            let question = Question {
                names: names.clone(),
                deadline,
            };
            self.questions.insert(query, question);
            self.next_round = now.after(ROUND_MIN);
            self.steps.push_back(IdentityStep::Ask { query, names });
        }
    }

    fn seed_of(&self, key: &IdentityKey) -> u64 {
        let IdentityKey {
            alloc,
            task,
            identity,
        } = key;
        let bytes = alloc.as_bytes().iter();
        let bytes = bytes.chain(task.as_bytes()).chain(identity.as_bytes());
        bytes.fold(self.seed, |seed, byte| mix(seed, u64::from(*byte)))
    }

    fn range(
        &self,
        alloc: AllocId,
        task: Option<&str>,
    ) -> impl Iterator<Item = (&IdentityKey, &Entry)> {
        let task = task.map(str::to_owned);
        let first = IdentityKey::new(alloc, task.clone().unwrap_or_default(), "");
        self.entries.range(first..).take_while(move |(key, _)| {
            key.alloc == alloc && task.as_ref().is_none_or(|task| key.task == *task)
        })
    }

    fn keys_of(&self, alloc: AllocId, task: Option<&str>) -> Vec<IdentityKey> {
        self.range(alloc, task)
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Changes an entry, if it waits for the answer to this question.
    fn change_of<T>(
        &mut self,
        key: &IdentityKey,
        query: QueryId,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let waits = self.entries.get(key).is_some_and(|it| it.awaits(query));
        waits.then(|| self.change(key, change)).flatten()
    }

    fn change<T>(&mut self, key: &IdentityKey, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut entry = self.take(key)?;
        let changed = change(&mut entry);
        self.put(key.clone(), entry);
        Some(changed)
    }

    fn take(&mut self, key: &IdentityKey) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if let Some(at) = entry.due() {
            self.due.remove(&(at, key.clone()));
        }
        if let Some(at) = entry.expiry() {
            self.expiries.remove(&(at, key.clone()));
        }
        Some(entry)
    }

    fn put(&mut self, key: IdentityKey, entry: Entry) {
        if let Some(at) = entry.due() {
            self.due.insert((at, key.clone()));
        }
        if let Some(at) = entry.expiry() {
            self.expiries.insert((at, key.clone()));
        }
        self.entries.insert(key, entry);
    }
}
