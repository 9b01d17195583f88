//! The guard of one task's socket: its connections, its requests, and its failures.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bucket::Bucket;
use crate::time::Moment;

/// Credentials that a server rejects: as many a second, and at once.
const FAILURES_RATE: u32 = 5;
const FAILURES_BURST: u32 = 20;
/// Tokens that are remembered as valid, and as rejected. A task has one or two.
const KNOWN_MAX: usize = 64;
/// How long a token counts as known after a server took it. It decides nothing but whether the
/// token is judged while the failures are spent.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// SHA-256 of a token: no token is kept.
pub type TokenDigest = [u8; 32];

/// The limits of one socket, from the node's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketLimits {
    /// Connections at a time; further ones are closed.
    pub connections: u32,
    /// Requests under way at a time; further ones get 429.
    pub requests: u32,
    /// Requests a second; further ones get 429.
    pub rate: u32,
    /// Requests at once after a rest.
    pub burst: u32,
}

impl Default for SocketLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            requests: 32,
            rate: 200,
            burst: 400,
        }
    }
}

/// The credential of a request, as far as the node can judge it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// There is none.
    Nothing,
    /// It is certainly not valid.
    Invalid,
    /// The servers judge it.
    Token(TokenDigest),
    /// The node verified it.
    Verified(TokenDigest),
}

/// The verdict on a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is forwarded, and [`Guard::judged`] and [`Guard::end`] follow.
    Forward(Charge),
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 429, with the time after which it may be repeated.
    TooMany {
        /// The limit that was reached.
        limit: Limit,
        /// The time.
        retry_after: Duration,
    },
}

/// Whether a failure was taken in advance for a request that is forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charge {
    /// Its credential is known.
    Nothing,
    /// Its credential may be one that the servers reject.
    Failure,
}

/// A limit of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Requests under way.
    UnderWay,
    /// Requests a second.
    Rate,
    /// Credentials that were rejected.
    Failures,
}

impl Limit {
    /// The limit in the words of a 429.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnderWay => "requests under way",
            Self::Rate => "requests a second",
            Self::Failures => "rejected credentials",
        }
    }
}

/// A server's judgment of a credential.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judged {
    /// It is valid.
    Valid,
    /// It is not.
    Rejected,
    /// No server said.
    Unknown,
}

/// The guard of one task's socket.
#[derive(Clone, Debug)]
pub struct Guard {
    limits: SocketLimits,
    connections: u32,
    under_way: u32,
    requests: Bucket,
    failures: Bucket,
    known: BTreeMap<TokenDigest, Moment>,
    /// Tokens that the node verified and a server rejected.
    rejected: BTreeMap<TokenDigest, Moment>,
}

impl Guard {
    /// A guard with these limits.
    pub fn new(limits: SocketLimits) -> Self {
        Self {
            limits,
            connections: 0,
            under_way: 0,
            requests: Bucket::new(limits.rate, limits.burst),
            failures: Bucket::new(FAILURES_RATE, FAILURES_BURST),
            known: BTreeMap::new(),
            rejected: BTreeMap::new(),
        }
    }

    /// Takes a place for a connection; `false` where there is none.
    #[must_use]
    pub fn open(&mut self) -> bool {
        let has_place = self.connections < self.limits.connections;
        if has_place {
            self.connections += 1;
        }
        has_place
    }

    /// A connection that had a place is gone.
    pub fn close(&mut self) {
        self.connections = self.connections.saturating_sub(1);
    }

    /// Whether a token that the node has not verified yet is worth it: not while the failures are
    /// spent, unless a server took it a moment ago. A [`Shown::Token`] gets 429 then.
    pub fn may_verify(&self, token: &TokenDigest, now: Moment) -> bool {
        self.is_known(token, now) || self.failures.has_one(now)
    }

    /// Judges a request. Credentials that nobody knows are paid for in advance, so that requests
    /// side by side cannot have more failures than the budget.
    pub fn begin(&mut self, shown: &Shown, now: Moment) -> Verdict {
        let too_many = |limit| move |retry_after| Verdict::TooMany { limit, retry_after };
        if let Err(wait) = self.requests.take(now) {
            return too_many(Limit::Rate)(wait);
        }
        if self.under_way >= self.limits.requests {
            return too_many(Limit::UnderWay)(Duration::from_secs(1));
        }
        let charge = match shown {
            Shown::Nothing => return Verdict::Unauthorized,
            Shown::Invalid => {
                let taken = self.failures.take(now);
                return taken.map_or_else(too_many(Limit::Failures), |()| Verdict::Forbidden);
            }
            Shown::Token(token) if !self.is_known(token, now) => Charge::Failure,
            Shown::Verified(token) if self.is_doubtful(token, now) => Charge::Failure,
            Shown::Token(_) | Shown::Verified(_) => Charge::Nothing,
        };
        if charge == Charge::Failure
            && let Err(wait) = self.failures.take(now)
        {
            return too_many(Limit::Failures)(wait);
        }
        self.under_way += 1;
        Verdict::Forward(charge)
    }

    /// A server has judged the credential of a request that was forwarded with this charge: once
    /// each, before [`Self::end`].
    pub fn judged(&mut self, shown: &Shown, charge: Charge, judged: Judged, now: Moment) {
        let (Shown::Token(token) | Shown::Verified(token)) = shown else {
            return;
        };
        match judged {
            Judged::Valid => {
                remember(&mut self.known, *token, now);
                self.rejected.remove(token);
            }
            Judged::Rejected => {
                self.known.remove(token);
                if matches!(shown, Shown::Verified(_)) {
                    remember(&mut self.rejected, *token, now);
                }
            }
            Judged::Unknown => {}
        }
        match (judged, charge) {
            (Judged::Valid | Judged::Unknown, Charge::Failure) => self.failures.give_back(),
            (Judged::Rejected, Charge::Nothing) => {
                // A budget that is spent already has no more to give.
                let _ = self.failures.take(now);
            }
            (Judged::Valid | Judged::Unknown, Charge::Nothing)
            | (Judged::Rejected, Charge::Failure) => {}
        }
    }

    /// A request that was forwarded is over.
    pub fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    fn is_known(&self, token: &TokenDigest, now: Moment) -> bool {
        is_recent(self.known.get(token), now)
    }

    /// Whether servers may reject a token that the node verified: they did, or they rejected so
    /// many that not all are remembered.
    fn is_doubtful(&self, token: &TokenDigest, now: Moment) -> bool {
        let recent = self.rejected.values();
        let recent = recent.filter(|since| is_recent(Some(since), now)).count();
        let was_rejected = is_recent(self.rejected.get(token), now);
        was_rejected || (recent >= KNOWN_MAX && !self.is_known(token, now))
    }
}

fn is_recent(since: Option<&Moment>, now: Moment) -> bool {
    since.is_some_and(|since| now.since(*since) < KNOWN_FOR)
}

fn remember(tokens: &mut BTreeMap<TokenDigest, Moment>, token: TokenDigest, now: Moment) {
    if tokens.len() >= KNOWN_MAX && !tokens.contains_key(&token) {
        let oldest = tokens.iter().min_by_key(|(_, since)| **since);
        if let Some(oldest) = oldest.map(|(token, _)| *token) {
            tokens.remove(&oldest);
        }
    }
    tokens.insert(token, now);
}
