//! The budgets of this server's callers: [`protocol_access::budget`] with a clock and locks.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::AclTokenKind;
use parking_lot::{Mutex, MutexGuard};
use protocol_access::budget::{Budgets, Class, KEYS_MAX, Key, Kind, Left, Limits, Place, Refused};
use protocol_api::acl;
use tokio::time::Instant;

use super::{Caller, Sender};

/// Parts with locks of their own, so that requests of several callers do not wait for each other.
const SHARDS: usize = 16;

/// Callers by a hash that strangers cannot foresee: they cannot fill the part of one caller.
#[derive(Debug)]
struct Shards {
    by: RandomState,
    shards: [Mutex<Budgets>; SHARDS],
}

impl Shards {
    fn new(limits: Limits) -> Self {
        let one = |_| Mutex::new(Budgets::with_keys_max(limits, KEYS_MAX / SHARDS));
        Self {
            by: RandomState::new(),
            shards: std::array::from_fn(one),
        }
    }

    fn lock(&self, key: &Key) -> MutexGuard<'_, Budgets> {
        let hash = self.by.hash_one(key).to_le_bytes();
        self.shards[usize::from(hash[0]) % SHARDS].lock()
    }
}

/// Budgets of callers and of addresses. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct CallerBudgets {
    shards: Arc<Shards>,
    /// The origin of their clock.
    since: Instant,
}

/// A place for a waiting query or a stream; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct OccupiedPlace {
    shards: Arc<Shards>,
    kind: Kind,
    key: Key,
    place: Place,
}

impl Drop for OccupiedPlace {
    fn drop(&mut self) {
        let mut budgets = self.shards.lock(&self.key);
        budgets.leave(self.kind, &self.key, self.place);
    }
}

impl CallerBudgets {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            shards: Arc::new(Shards::new(limits)),
            since: Instant::now(),
        }
    }

    /// Other limits for the requests to come.
    pub(crate) fn set_limits(&self, limits: Limits) {
        for shard in &self.shards.shards {
            shard.lock().set_limits(limits);
        }
    }

    /// Charges a request to its caller.
    ///
    /// # Errors
    /// If the budget is spent.
    pub(crate) fn charge(
        &self,
        caller: &Caller,
        class: Class,
        now: Instant,
    ) -> Result<(), Refused> {
        let Some((kind, key)) = account(caller) else {
            return Ok(());
        };
        let now = self.clock(now);
        self.shards.lock(&key).charge(kind, &key, class, now)
    }

    /// Charges a login to its address.
    ///
    /// # Errors
    /// If the budget is spent.
    pub(crate) fn charge_login(&self, address: IpAddr, now: Instant) -> Result<(), Refused> {
        self.charge_key(Kind::Login, &Key::address(address), now)
    }

    /// Charges a refused credential to its sender.
    ///
    /// # Errors
    /// If the budget is spent.
    pub(crate) fn charge_failure(&self, sender: &Sender, now: Instant) -> Result<(), Refused> {
        self.charge_key(Kind::Failure, &sender.key(), now)
    }

    fn charge_key(&self, kind: Kind, key: &Key, now: Instant) -> Result<(), Refused> {
        let now = self.clock(now);
        let mut budgets = self.shards.lock(key);
        budgets.charge(kind, key, Class::Read, now)
    }

    /// Whether a credential of this sender may still turn out to be refused.
    ///
    /// # Errors
    /// If the budget of the sender is spent.
    pub(crate) fn may_fail(&self, sender: &Sender, now: Instant) -> Result<(), Refused> {
        let (key, now) = (sender.key(), self.clock(now));
        let budgets = self.shards.lock(&key);
        budgets.check(Kind::Failure, &key, Class::Read, now)
    }

    /// Occupies a place; `None` where nothing is limited.
    ///
    /// # Errors
    /// If all places of the caller are occupied.
    pub(crate) fn enter(
        &self,
        caller: &Caller,
        place: Place,
    ) -> Result<Option<OccupiedPlace>, Refused> {
        let Some((kind, key)) = account(caller) else {
            return Ok(None);
        };
        self.shards.lock(&key).enter(kind, &key, place)?;
        Ok(Some(OccupiedPlace {
            shards: Arc::clone(&self.shards),
            kind,
            key,
            place,
        }))
    }

    /// The rest of a caller's budgets, as WhoAmI shows it; `None` where nothing is limited.
    pub(crate) fn shown(&self, caller: &Caller, now: Instant) -> Option<acl::Budgets> {
        let (kind, key) = account(caller)?;
        let now = self.clock(now);
        let budgets = self.shards.lock(&key);
        let requests = |class| {
            let Left { rate, left } = budgets.left(kind, &key, class, now)?;
            Some(acl::BudgetLeft {
                limit: rate.requests.into(),
                left: left.into(),
            })
        };
        let places = |place| {
            let limit = budgets.limits().places(kind, place)?;
            let left = limit.saturating_sub(budgets.occupied(kind, &key, place));
            Some(acl::BudgetLeft {
                limit: limit.into(),
                left: left.into(),
            })
        };
        Some(acl::Budgets {
            read: requests(Class::Read),
            list: requests(Class::List),
            write: requests(Class::Write),
            waiting: places(Place::Waiting),
            streams: places(Place::Stream),
        })
    }

    fn clock(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

/// The account that a caller's requests are charged to.
fn account(caller: &Caller) -> Option<(Kind, Key)> {
    Some(match caller {
        Caller::Open => return None,
        Caller::Anonymous { address } => (Kind::Anonymous, Key::address(*address)),
        Caller::Token { accessor_id, kind } => {
            let kind = match kind {
                AclTokenKind::Management => Kind::Management,
                AclTokenKind::Client => Kind::Token,
            };
            (kind, Key::Accessor(Arc::clone(accessor_id)))
        }
        // A thousand instances of a job share one budget.
        Caller::Workload(workload) => {
            let (namespace, job) = (&workload.namespace, &workload.job);
            let key = Key::Job {
                namespace: Arc::clone(namespace),
                job: Arc::clone(job),
            };
            (Kind::Workload, key)
        }
    })
}

#[cfg(test)]
mod tests {
    use protocol_model::AllocId;

    use super::*;

    fn token() -> Caller {
        Caller::Token {
            accessor_id: "a".into(),
            kind: AclTokenKind::Client,
        }
    }

    #[test]
    fn an_occupied_place_is_free_again_when_it_is_dropped() {
        let mut limits = Limits::default();
        limits.token.waiting = 1;
        let budgets = CallerBudgets::new(limits);
        let waiting = budgets.enter(&token(), Place::Waiting).expect("a place");
        budgets
            .enter(&token(), Place::Waiting)
            .expect_err("it has one");
        let left = |budgets: &CallerBudgets| budgets.shown(&token(), Instant::now());
        assert_eq!(
            left(&budgets).and_then(|it| it.waiting).map(|it| it.left),
            Some(0)
        );
        drop(waiting);
        assert_eq!(
            left(&budgets).and_then(|it| it.waiting).map(|it| it.left),
            Some(1)
        );
        budgets
            .enter(&token(), Place::Waiting)
            .expect("it is free again");
    }

    #[test]
    fn other_limits_hold_for_callers_of_every_part() {
        let budgets = CallerBudgets::new(Limits::default());
        let mut limits = Limits::default();
        limits.token.read = Some(0);
        budgets.set_limits(limits);
        for number in 0..SHARDS * 8 {
            let caller = Caller::Token {
                accessor_id: number.to_string().into(),
                kind: AclTokenKind::Client,
            };
            budgets
                .charge(&caller, Class::Read, Instant::now())
                .expect_err("nothing is allowed");
        }
    }

    #[test]
    fn callers_have_no_budget_where_access_control_is_off() {
        let mut limits = Limits::default();
        limits.anonymous.read = Some(0);
        let budgets = CallerBudgets::new(limits);
        let now = Instant::now();
        budgets
            .charge(&Caller::Open, Class::Read, now)
            .expect("without limit");
        assert_eq!(budgets.shown(&Caller::Open, now), None);
    }

    #[test]
    fn an_address_without_failures_left_may_not_fail_again() {
        let budgets = CallerBudgets::new(Limits::default());
        let (address, now) = (IpAddr::from([10, 0, 0, 1]), Instant::now());
        let sender = Sender::from(address);
        for _ in 0..20 {
            budgets.may_fail(&sender, now).expect("one is left");
            budgets.charge_failure(&sender, now).expect("one is left");
        }
        let refused = budgets.may_fail(&sender, now).expect_err("none is left");
        let charged = budgets
            .charge_failure(&sender, now)
            .expect_err("none is left");
        assert_eq!(refused, charged);
        let task = Sender {
            address,
            task: Some((AllocId::from_u128(1), "web".into())),
        };
        for other in [Sender::from(IpAddr::from([10, 0, 0, 2])), task] {
            budgets.may_fail(&other, now).expect("another account");
        }
        let later = now + Duration::from_millis(200);
        budgets.may_fail(&sender, later).expect("5 a second");
    }
}
