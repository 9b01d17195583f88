//! From a credential to a caller with its rights, on one snapshot of the state.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use controlplane_state::{AclToken, AclTokenKind, Digest, Snapshot};
use parking_lot::Mutex;
use protocol_access::Acl;
use protocol_access::budget::Limits;
use protocol_model::UnixNanos;

use super::budgets::CallerBudgets;
use super::known::KnownCallers;
use super::measure::Meters;
use super::rights::Rights;
use super::workload::VerifiedTokens;
use super::{Asker, Caller, Credential, SharedBarrier};
use crate::config::Config;
use crate::planted::{Planted, PlantedBug};

/// The policy that callers without a credential have.
const ANONYMOUS: &str = "anonymous";

/// The reason why a credential is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Rejected {
    /// It does not look like one.
    Malformed,
    /// No token has it.
    Unknown,
    /// Its token has expired.
    Expired,
    /// A workload token with another signature or algorithm than that of its key.
    Signature,
    /// A workload token that is meant for others.
    Audience,
    /// A workload token whose time has not come.
    TooEarly,
    /// A workload token whose allocation or task is over.
    Ended,
}

impl Rejected {
    /// All of them, in the order of their declaration.
    pub(crate) const ALL: [Self; 7] = [
        Self::Malformed,
        Self::Unknown,
        Self::Expired,
        Self::Signature,
        Self::Audience,
        Self::TooEarly,
        Self::Ended,
    ];

    /// The reason as metrics, logs and WhoAmI name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Signature => "signature",
            Self::Audience => "audience",
            Self::TooEarly => "not_yet_valid",
            Self::Ended => "ended",
        }
    }
}

/// Finds callers. Clones of an `Arc` of it share the caches.
#[derive(Debug)]
pub(crate) struct Access {
    is_on: bool,
    management: Arc<Acl>,
    known: KnownCallers,
    rights: Mutex<Rights>,
    verified: VerifiedTokens,
    meters: Meters,
    budgets: CallerBudgets,
    lookup_barrier: SharedBarrier,
    health_barrier: SharedBarrier,
    /// The latest time at which a token was refused as expired, in nanoseconds since 1970.
    refused_at: AtomicI64,
    planted: Planted,
}

impl Access {
    /// Access control that is on or off.
    #[cfg(test)]
    pub(crate) fn new(is_on: bool) -> Self {
        Self::planted_with(is_on, None)
    }

    /// Access control that is on or off, with the bug that a simulator plants.
    pub(crate) fn planted_with(is_on: bool, bug: Option<PlantedBug>) -> Self {
        Self {
            is_on,
            management: Arc::new(Acl::management()),
            known: KnownCallers::new(),
            rights: Mutex::new(Rights::new()),
            verified: VerifiedTokens::new(),
            meters: Meters::default(),
            budgets: CallerBudgets::new(Limits::default()),
            lookup_barrier: SharedBarrier::default(),
            health_barrier: SharedBarrier::default(),
            refused_at: AtomicI64::new(0),
            planted: Planted::new(bug),
        }
    }

    /// How often callers asked for what.
    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// How much callers may ask.
    pub(crate) fn budgets(&self) -> &CallerBudgets {
        &self.budgets
    }

    /// The barrier of those who ask for this server's health: they are never refused.
    pub(crate) fn health_barrier(&self) -> &SharedBarrier {
        &self.health_barrier
    }

    /// The rights of callers.
    pub(super) fn rights(&self) -> &Mutex<Rights> {
        &self.rights
    }

    /// Workload tokens whose signature was verified.
    pub(super) fn verified(&self) -> &VerifiedTokens {
        &self.verified
    }

    /// The barrier of credentials that are not known here: this server may lag behind the one that
    /// made the token. That a credential was unknown a moment ago says nothing of now, so none is
    /// remembered; the barrier is shared, and the address has a budget of failures.
    pub(crate) fn lookup_barrier(&self) -> &SharedBarrier {
        &self.lookup_barrier
    }

    /// Takes the settings that may change while a server runs: budgets, and labels of metrics.
    pub(crate) fn configure(&self, config: &Config) {
        self.meters.set_labels(config.telemetry.labels);
        self.budgets.set_limits(config.limits.budgets);
    }

    /// Whether access control is on.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The caller with this credential, as `snapshot` has it.
    ///
    /// # Errors
    /// If the credential is not valid.
    pub(crate) fn resolve(
        &self,
        snapshot: &Snapshot,
        credential: &Credential,
        address: IpAddr,
        now: UnixNanos,
    ) -> Result<Asker, Rejected> {
        if !self.is_on {
            return Ok(self.open(snapshot));
        }
        self.planted.caller(address, || match credential {
            Credential::Absent => Ok(self.anonymous(snapshot, address)),
            Credential::Malformed => Err(Rejected::Malformed),
            Credential::Secret(digest) => self.by_secret(snapshot, digest, now),
            Credential::Workload(shown) => {
                let (_, workload) = self.workload(snapshot, shown, now)?;
                Ok(self.of_workload(snapshot, workload))
            }
        })
    }

    /// The bug that a simulator planted here.
    pub(crate) fn planted(&self) -> &Planted {
        &self.planted
    }

    /// The holder of the token with this accessor id.
    ///
    /// # Errors
    /// If no token has it, or it has expired.
    pub(crate) fn by_accessor(
        &self,
        snapshot: &Snapshot,
        accessor_id: &str,
        now: UnixNanos,
    ) -> Result<Asker, Rejected> {
        let token = snapshot.acl_token(accessor_id).ok_or(Rejected::Unknown)?;
        self.check_expiration(token.expiration, snapshot, now)?;
        Ok(self.holder(snapshot, token))
    }

    fn by_secret(
        &self,
        snapshot: &Snapshot,
        secret: &Digest,
        now: UnixNanos,
    ) -> Result<Asker, Rejected> {
        if let Some(asker) = self.known.find(secret, snapshot.acl_index()) {
            self.check_expiration(asker.expires, snapshot, now)?;
            return Ok(asker);
        }
        let token = snapshot.token_by_secret(secret).ok_or(Rejected::Unknown)?;
        self.check_expiration(token.expiration, snapshot, now)?;
        let asker = self.holder(snapshot, token);
        self.known.keep(*secret, asker.clone());
        Ok(asker)
    }

    /// Any caller where access control is off.
    pub(super) fn open(&self, snapshot: &Snapshot) -> Asker {
        Asker {
            caller: Caller::Open,
            acl: Arc::clone(&self.management),
            expires: None,
            acl_index: snapshot.acl_index(),
        }
    }

    /// A caller without a credential.
    pub(crate) fn anonymous(&self, snapshot: &Snapshot, address: IpAddr) -> Asker {
        Asker {
            caller: Caller::Anonymous { address },
            acl: self.rights.lock().of_anonymous(snapshot, ANONYMOUS),
            expires: None,
            acl_index: snapshot.acl_index(),
        }
    }

    fn holder(&self, snapshot: &Snapshot, token: &AclToken) -> Asker {
        let accessor_id: Arc<str> = token.accessor_id.as_str().into();
        let acl = match token.kind {
            AclTokenKind::Management => Arc::clone(&self.management),
            AclTokenKind::Client => {
                let mut rights = self.rights.lock();
                rights.of_token(snapshot, token, &accessor_id)
            }
        };
        Asker {
            caller: Caller::Token {
                accessor_id,
                kind: token.kind,
            },
            acl,
            expires: token.expiration,
            acl_index: snapshot.acl_index(),
        }
    }

    /// Refuses a token that has expired. The latest clock counts, so that a clock that was set back
    /// revives no token: this server's, the state's time, and that of the last such refusal.
    fn check_expiration(
        &self,
        expiration: Option<UnixNanos>,
        snapshot: &Snapshot,
        now: UnixNanos,
    ) -> Result<(), Rejected> {
        let Some(expiration) = expiration else {
            return Ok(());
        };
        let refused_at = UnixNanos(self.refused_at.load(Ordering::Relaxed));
        let now = now.max(snapshot.now()).max(refused_at);
        if expiration <= now {
            self.refused_at.fetch_max(now.0, Ordering::Relaxed);
            return Err(Rejected::Expired);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use protocol_access::NamespaceCapability::{ReadJob, SubmitJob};

    use super::*;
    use crate::access::in_state::{InState, secret};

    const NOW: UnixNanos = UnixNanos(10);
    const READ: &str = "namespace \"default\" { policy = \"read\" }";
    const WRITE: &str = "namespace \"default\" { policy = \"write\" }";

    fn asked(access: &Access, snapshot: &Snapshot, accessor_id: &str) -> Result<Asker, Rejected> {
        let credential = Credential::Secret(secret(accessor_id));
        let address = IpAddr::from([127, 0, 0, 1]);
        access.resolve(snapshot, &credential, address, NOW)
    }

    /// The rights that tell the policies of these tests apart; `None` for a token that is refused.
    fn rights(access: &Access, snapshot: &Snapshot, accessor_id: &str) -> Option<[bool; 4]> {
        let asker = asked(access, snapshot, accessor_id).ok()?;
        assert_eq!(asker.accessor_id(), accessor_id);
        assert_eq!(asker.acl_index, snapshot.acl_index());
        let may = |namespace, capability| asker.acl.namespace(namespace, capability);
        Some([
            may("default", ReadJob),
            may("default", SubmitJob),
            may("dev", ReadJob),
            may("dev", SubmitJob),
        ])
    }

    /// The next number of a sequence that looks random (Knuth's constants of a linear generator).
    fn draw(seed: &mut u64, below: usize) -> usize {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(*seed >> 33).unwrap_or(0) % below
    }

    /// One change of a token, a policy, a role or of nothing that rights depend on.
    fn change(cluster: &mut InState, seed: &mut u64) {
        const POLICIES: [&str; 4] = ["a", "b", "c", "d"];
        const RULES: [&str; 5] = [
            READ,
            WRITE,
            "namespace \"dev\" { policy = \"read\" }",
            "namespace \"d*\" { policy = \"write\" }",
            "namespace \"default\" { policy = \"deny\" }",
        ];
        let [one, other] = [draw(seed, 4), draw(seed, 4)].map(|at| POLICIES[at]);
        let token = ["t1", "t2", "t3"][draw(seed, 3)];
        let there = cluster.snapshot();
        match draw(seed, 8) {
            0..3 => cluster.write_policy(one, RULES[draw(seed, 5)]),
            3 if there.acl_policy(one).is_some() => cluster.delete_policy(one),
            4 if there.acl_policy(one).is_some() => cluster.write_role("r", &[one]),
            5 if there.acl_token(token).is_some() => cluster.delete_token(token),
            6 if there.acl_token(token).is_none() && there.acl_role("r").is_some() => {
                cluster.create_token(token, [&[one, other], &["r"]], None);
            }
            _ if there.acl_token(token).is_none() => {
                cluster.create_token(token, [&[one, other], &[]], None);
            }
            _ => {}
        }
    }

    #[test]
    fn kept_rights_equal_those_found_anew_after_random_changes() {
        for first_seed in 0..20 {
            let (mut cluster, mut seed) = (InState::new(), first_seed);
            let access = Access::new(true);
            let mut earlier = cluster.snapshot();
            for step in 0..200 {
                for _ in 0..draw(&mut seed, 3) {
                    change(&mut cluster, &mut seed);
                }
                // A request may work on a state that is a little older than that of the one before.
                let newest = cluster.snapshot();
                for snapshot in [&newest, &earlier, &newest] {
                    for token in ["t1", "t2", "t3"] {
                        if draw(&mut seed, 3) == 0 {
                            continue;
                        }
                        let kept = rights(&access, snapshot, token);
                        let anew = rights(&Access::new(true), snapshot, token);
                        assert_eq!(kept, anew, "seed {first_seed}, step {step}, {token}");
                    }
                }
                earlier = newest;
            }
        }
    }

    #[test]
    fn policy_that_is_made_later_gives_its_rights() {
        let (mut cluster, access) = (InState::new(), Access::new(true));
        cluster.write_policy("a", READ);
        cluster.create_token("t1", [&["a", "later"], &[]], None);
        let read = Some([true, false, false, false]);
        assert_eq!(rights(&access, &cluster.snapshot(), "t1"), read);
        cluster.write_policy("unrelated", WRITE);
        assert_eq!(rights(&access, &cluster.snapshot(), "t1"), read);
        cluster.write_policy("later", WRITE);
        let written = Some([true, true, false, false]);
        assert_eq!(rights(&access, &cluster.snapshot(), "t1"), written);
        cluster.delete_policy("later");
        assert_eq!(rights(&access, &cluster.snapshot(), "t1"), read);
    }

    #[test]
    fn known_caller_is_refused_once_its_token_expired_or_is_deleted() {
        let (mut cluster, access) = (InState::new(), Access::new(true));
        cluster.write_policy("a", READ);
        let expiration = Some(UnixNanos(20));
        cluster.create_token("t1", [&["a"], &[]], expiration);
        let snapshot = cluster.snapshot();
        let credential = Credential::Secret(secret("t1"));
        let address = IpAddr::from([127, 0, 0, 1]);
        let at = |now| {
            let resolved = access.resolve(&snapshot, &credential, address, UnixNanos(now));
            resolved.map(|_| ())
        };
        assert_eq!(at(10), Ok(()));
        assert_eq!(at(19), Ok(()));
        assert_eq!(at(20), Err(Rejected::Expired));
        assert_eq!(at(19), Err(Rejected::Expired), "a clock that was set back");
        cluster.delete_token("t1");
        let gone = asked(&access, &cluster.snapshot(), "t1");
        assert_eq!(gone.err(), Some(Rejected::Unknown));
    }
}
