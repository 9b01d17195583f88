//! The life of one identity.
//!
//! ```text
//!             due                answered                 half of the ttl
//!   wanted ---------> asked ------------------> held ------------------------> renewing
//!     ^  failed, lost   |                        ^  ^      failed, lost            |
//!     +-----------------+                        |  +------------------------------+
//!                                                +------------ answered -----------+
//! ```

use std::time::Duration;

use super::QueryId;
use super::token::{HeldToken, SignedToken};
use crate::pseudo_random::{mix, part_of};
use crate::time::Moment;

/// The shortest time from a token's arrival to its renewal.
pub const RENEWAL_MIN: Duration = Duration::from_secs(10);
/// The pause after the first failure; every further one doubles it.
pub const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest pause. Of a token with a ttl it is a tenth of that, if this is shorter.
pub const RETRY_MAX: Duration = Duration::from_secs(30);

/// Where an identity is in its life.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// It is to be asked for, and there is none.
    Wanted { due: Moment },
    /// It was asked for.
    Asked { query: QueryId, root_key: u32 },
    /// There is one; without `renew` it is valid while its allocation lives.
    Held {
        token: HeldToken,
        renew: Option<Moment>,
    },
    /// There is one, and a newer one was asked for.
    Renewing {
        token: HeldToken,
        query: QueryId,
        root_key: u32,
    },
}

/// Whether a run of the task wants it now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Interest {
    /// It is asked for and renewed.
    Active,
    /// No run of the task lives: nothing is asked for.
    Paused,
}

/// Whether a token is the first one of its identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// The task has had none: nothing changes for it.
    First,
    /// It takes the place of another one: the identity's change mode says what follows.
    Renewed,
}

/// One identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) interest: Interest,
    /// The root key that the allocation names; 0 = none is known.
    root_key: u32,
    failures: u32,
    /// Differs from entry to entry, for jitter.
    seed: u64,
    draws: u64,
    phase: Phase,
}

impl Entry {
    pub(super) fn wanted(root_key: u32, seed: u64, now: Moment) -> Self {
        Self {
            interest: Interest::Active,
            root_key,
            failures: 0,
            seed,
            draws: 0,
            phase: Phase::Wanted { due: now },
        }
    }

    /// A token that an earlier daemon of this boot held.
    pub(super) fn restored(token: HeldToken, seed: u64) -> Self {
        let mut entry = Self::wanted(token.root_key, seed, token.came);
        entry.interest = Interest::Paused;
        entry.hold(token);
        entry
    }

    /// A run wants it, signed by the key that its allocation names now.
    pub(super) fn want(&mut self, root_key: u32, now: Moment) {
        self.interest = Interest::Active;
        if root_key == 0 || root_key == self.root_key {
            return;
        }
        self.root_key = root_key;
        if let Phase::Held { token, renew } = &mut self.phase
            && token.root_key != root_key
        {
            *renew = Some(now);
        }
    }

    pub(super) fn token(&self) -> Option<&HeldToken> {
        match &self.phase {
            Phase::Wanted { .. } | Phase::Asked { .. } => None,
            Phase::Held { token, .. } | Phase::Renewing { token, .. } => Some(token),
        }
    }

    /// When it is to be asked for; `None` while it was asked for, or needs nothing.
    pub(super) fn due(&self) -> Option<Moment> {
        match (&self.phase, self.interest) {
            (Phase::Wanted { due }, Interest::Active) => Some(*due),
            (Phase::Held { renew, .. }, Interest::Active) => *renew,
            (Phase::Wanted { .. } | Phase::Held { .. }, Interest::Paused)
            | (Phase::Asked { .. } | Phase::Renewing { .. }, _) => None,
        }
    }

    /// When its token expires, where that is to be told.
    pub(super) fn expiry(&self) -> Option<Moment> {
        let is_active = self.interest == Interest::Active;
        let token = self.token().filter(|it| is_active && !it.expiry_told);
        token.and_then(HeldToken::expires)
    }

    pub(super) fn on_expiry_told(&mut self) {
        match &mut self.phase {
            Phase::Wanted { .. } | Phase::Asked { .. } => {}
            Phase::Held { token, .. } | Phase::Renewing { token, .. } => token.expiry_told = true,
        }
    }

    /// It is asked for with this query.
    pub(super) fn ask(&mut self, query: QueryId) {
        let root_key = self.root_key;
        self.phase = match self.take_phase() {
            Phase::Wanted { .. } => Phase::Asked { query, root_key },
            Phase::Held { token, .. } => Phase::Renewing {
                token,
                query,
                root_key,
            },
            asked @ (Phase::Asked { .. } | Phase::Renewing { .. }) => asked,
        };
    }

    /// Whether it waits for the answer to this query.
    pub(super) fn awaits(&self, query: QueryId) -> bool {
        match self.phase {
            Phase::Asked { query: own, .. } | Phase::Renewing { query: own, .. } => own == query,
            Phase::Wanted { .. } | Phase::Held { .. } => false,
        }
    }

    /// The answer came. Whether the token is the first one.
    pub(super) fn on_signed(&mut self, signed: SignedToken, now: Moment) -> Delivery {
        let (delivery, root_key) = match &self.phase {
            Phase::Asked { root_key, .. } => (Delivery::First, *root_key),
            Phase::Renewing { root_key, .. } => (Delivery::Renewed, *root_key),
            Phase::Wanted { .. } => (Delivery::First, self.root_key),
            Phase::Held { .. } => (Delivery::Renewed, self.root_key),
        };
        self.failures = 0;
        self.hold(HeldToken::new(signed, root_key, now));
        // The allocation names another key by now.
        if root_key != self.root_key
            && let Phase::Held { renew, .. } = &mut self.phase
        {
            *renew = Some(now);
        }
        delivery
    }

    /// The answer did not come, or was no token: it is asked again after a pause.
    pub(super) fn on_failed(&mut self, now: Moment) {
        self.failures = self.failures.saturating_add(1);
        let at = now.after(self.pause());
        self.wait_until(at);
    }

    /// The session of its query ended: it is asked for again in the next one.
    pub(super) fn on_lost(&mut self, now: Moment) {
        self.wait_until(now);
    }

    /// A session is live: an identity that is wanted does not wait out a pause of the last one.
    pub(super) fn hurry(&mut self, now: Moment) {
        if let Phase::Wanted { due } = &mut self.phase {
            *due = now.min(*due);
        }
    }

    fn wait_until(&mut self, at: Moment) {
        self.phase = match self.take_phase() {
            Phase::Asked { .. } | Phase::Wanted { .. } => Phase::Wanted { due: at },
            Phase::Renewing { token, .. } | Phase::Held { token, .. } => Phase::Held {
                token,
                renew: Some(at),
            },
        };
    }

    fn take_phase(&mut self) -> Phase {
        let due = Moment::default();
        std::mem::replace(&mut self.phase, Phase::Wanted { due })
    }

    fn hold(&mut self, token: HeldToken) {
        let renew = token.ttl.map(|ttl| {
            let half = ttl / 2;
            let jitter = self.draw(half / 5);
            token
                .came
                .after((half - half / 10 + jitter).max(RENEWAL_MIN))
        });
        self.phase = Phase::Held { token, renew };
    }

    fn pause(&mut self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(5);
        let ttl = self.token().and_then(|token| token.ttl);
        let longest = ttl.map_or(RETRY_MAX, |ttl| (ttl / 10).min(RETRY_MAX));
        let whole = (RETRY_MIN * (1 << doublings)).min(longest);
        // Nodes that failed together do not come back together.
        whole.saturating_sub(self.draw(whole / 4)).max(RETRY_MIN)
    }

    fn draw(&mut self, whole: Duration) -> Duration {
        self.draws += 1;
        part_of(whole, mix(self.seed, self.draws))
    }
}
