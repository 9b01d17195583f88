//! Callers with a workload token: verified with the root keys of a snapshot, alive in it.
//!
//! ```text
//!  token -- SHA-256 --> verified before? --> claims: audience, times
//!               no: signature (58 us)           |
//!  snapshot: key and allocation known, not over, task in its group <--'
//! ```
//!
//! | limit | value | at the limit |
//! |---|---|---|
//! | [`VERIFIED_MAX`] | 16,384 tokens | those unused for longest are verified anew |
//!
//! Only the signature and the claims are kept. Keys, liveness and rights are read each time.

use std::sync::Arc;

use controlplane_state::{Digest, Snapshot};
use parking_lot::Mutex;
use protocol_access::OwnPaths;
use protocol_access::identity::{
    ClaimsError, IdentityClaims, PublicKeyPair, TokenError, VerifiedIdentity, verify,
};
use protocol_model::{AllocId, Allocation, Job, JobKey, NodeId, TaskRunState, UnixNanos};
use uuid::Uuid;

use super::cache::Cache;
use super::{Access, Asker, Caller, Rejected, ShownIdentity};

/// Tokens whose signature was verified.
const VERIFIED_MAX: usize = 16_384;
/// Parts with locks of their own.
const SHARDS: usize = 16;
/// Seconds that a token is valid beyond its `exp`, for clocks that differ.
const LEEWAY_SECONDS: u64 = 60;

/// A task that asks, as the state has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Workload {
    pub(crate) alloc: AllocId,
    pub(crate) namespace: Arc<str>,
    /// The job; of a dispatched or periodic child its parent.
    pub(crate) job: Arc<str>,
    pub(crate) group: Arc<str>,
    pub(crate) task: Arc<str>,
    /// The root key that signed its token.
    pub(crate) root_key: Uuid,
    /// The `exp` of its token, in seconds since 1970.
    pub(crate) expires_at: Option<u64>,
}

impl Workload {
    /// The task of this name, where its token is still good in `snapshot`.
    ///
    /// # Errors
    /// As [`check_alive`].
    fn alive(
        snapshot: &Snapshot,
        place: (AllocId, &str),
        root_key: Uuid,
        expires_at: Option<u64>,
    ) -> Result<Self, Rejected> {
        let (alloc, job) = check_alive(snapshot, place, root_key)?;
        let (_, task) = place;
        Ok(Self::of(alloc, job, task, root_key, expires_at))
    }

    fn of(
        alloc: &Allocation,
        job: &Job,
        task: &str,
        root_key: Uuid,
        expires_at: Option<u64>,
    ) -> Self {
        let job_id = match job.parent_id.as_str() {
            "" => alloc.job_id.as_str(),
            parent => parent,
        };
        Self {
            alloc: alloc.id,
            namespace: alloc.namespace.as_str().into(),
            job: job_id.into(),
            group: alloc.task_group.as_str().into(),
            task: task.into(),
            root_key,
            expires_at,
        }
    }

    /// Whether its token ended with its allocation, its task or its root key.
    pub(super) fn has_ended(&self, snapshot: &Snapshot) -> bool {
        check_alive(snapshot, (self.alloc, &self.task), self.root_key).is_err()
    }

    /// When its token stops being valid here.
    fn ends(&self) -> Option<UnixNanos> {
        let seconds = self.expires_at?.saturating_add(LEEWAY_SECONDS);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        Some(UnixNanos(seconds.saturating_mul(1_000_000_000)))
    }

    /// The variables that it reads without a policy.
    pub(super) fn own_paths(&self) -> OwnPaths {
        OwnPaths::new(&self.namespace, &self.job, &self.group, &self.task)
    }

    /// The policies that join it, by name.
    pub(crate) fn policies(&self, snapshot: &Snapshot) -> Vec<String> {
        let joins = |wanted: &str, own: &str| wanted.is_empty() || wanted == own;
        let mut names = Vec::new();
        for job in [&*self.job, ""] {
            let key = JobKey::new(self.namespace.to_string(), job.to_owned());
            let policies = snapshot.acl_policies_of_job(&key);
            let joining = policies.filter(|policy| {
                let acl = policy.job_acl.as_ref();
                acl.is_some_and(|it| joins(&it.group, &self.group) && joins(&it.task, &self.task))
            });
            names.extend(joining.map(|policy| policy.name.clone()));
        }
        names
    }
}

/// The allocation that has this task, with its job.
///
/// # Errors
/// [`Rejected::Unknown`] for an allocation that the state does not have, [`Rejected::Ended`] where
/// it is over or has no such task.
fn placed<'a>(
    snapshot: &'a Snapshot,
    (alloc, task): (AllocId, &str),
) -> Result<(&'a Allocation, &'a Job), Rejected> {
    let alloc = snapshot.alloc(alloc).ok_or(Rejected::Unknown)?;
    let job = snapshot.spec(alloc.spec).ok_or(Rejected::Unknown)?;
    let mut groups = job.task_groups.iter();
    let group = groups.find(|it| it.name == alloc.task_group);
    let has_task = group.is_some_and(|group| group.tasks.iter().any(|it| it.name == task));
    match has_task && !alloc.client_terminal() {
        true => Ok((alloc, job)),
        false => Err(Rejected::Ended),
    }
}

/// The same for a token of the task that this root key signed.
///
/// # Errors
/// As [`placed`], and for a root key that the state does not have, or a task that is over.
fn check_alive<'a>(
    snapshot: &'a Snapshot,
    place: (AllocId, &str),
    root_key: Uuid,
) -> Result<(&'a Allocation, &'a Job), Rejected> {
    // A removed key takes its tokens with it.
    snapshot.root_key_by_id(root_key).ok_or(Rejected::Unknown)?;
    let (alloc, job) = placed(snapshot, place)?;
    let state = alloc.task_states.get(place.1).map(|it| it.state);
    match state {
        Some(TaskRunState::Dead) => Err(Rejected::Ended),
        Some(_) | None => Ok((alloc, job)),
    }
}

/// Tokens whose signature was verified, by their SHA-256.
#[derive(Debug)]
pub(super) struct VerifiedTokens {
    shards: [Mutex<Cache<Digest, Arc<VerifiedIdentity>>>; SHARDS],
}

impl VerifiedTokens {
    pub(super) fn new() -> Self {
        let one = |_| Mutex::new(Cache::new(VERIFIED_MAX / SHARDS));
        Self {
            shards: std::array::from_fn(one),
        }
    }

    /// The claims of a token that a root key of `snapshot` signed.
    fn verify(
        &self,
        snapshot: &Snapshot,
        shown: &ShownIdentity,
    ) -> Result<Arc<VerifiedIdentity>, Rejected> {
        let shard = &self.shards[usize::from(shown.digest.0[0]) % SHARDS];
        let known = shard.lock().find(&shown.digest);
        if let Some(known) = known {
            return Ok(known);
        }
        let keys = |id| {
            let key = snapshot.root_key_by_id(id)?;
            Some(PublicKeyPair {
                ed25519: &key.public_ed25519,
                rsa: &key.public_rsa,
            })
        };
        let verified = verify(&shown.token, keys).map_err(|error| {
            tracing::debug!(%error, "a workload token is refused");
            match error {
                TokenError::Jwt(_) => Rejected::Signature,
                TokenError::UnknownKey => Rejected::Unknown,
                TokenError::Claims(_) => Rejected::Malformed,
            }
        })?;
        let verified = Arc::new(verified);
        shard.lock().insert(shown.digest, Arc::clone(&verified));
        Ok(verified)
    }
}

impl Access {
    /// The claims of a workload token that the API takes, and its task. Access control may be off.
    ///
    /// # Errors
    /// If the token is not valid on `snapshot`.
    pub(crate) fn workload(
        &self,
        snapshot: &Snapshot,
        shown: &ShownIdentity,
        now: UnixNanos,
    ) -> Result<(Arc<VerifiedIdentity>, Workload), Rejected> {
        let verified = self.verified().verify(snapshot, shown)?;
        let VerifiedIdentity { root_key, claims } = &*verified;
        check(claims, snapshot, now)?;
        let place = (claims.alloc_id, claims.task.as_str());
        let workload = Workload::alive(snapshot, place, *root_key, claims.expires_at)?;
        let same = *workload.namespace == *claims.namespace && *workload.job == *claims.job_id;
        match same {
            true => Ok((verified, workload)),
            false => Err(Rejected::Ended),
        }
    }

    /// A workload again, as another server sent it.
    ///
    /// # Errors
    /// If its token is not valid on `snapshot` any more.
    pub(super) fn workload_again(
        &self,
        snapshot: &Snapshot,
        earlier: &Workload,
        now: UnixNanos,
    ) -> Result<Asker, Rejected> {
        let place = (earlier.alloc, &*earlier.task);
        let alive = Workload::alive(snapshot, place, earlier.root_key, earlier.expires_at)?;
        let now = now.max(snapshot.now());
        if alive.ends().is_some_and(|end| end <= now) {
            return Err(Rejected::Expired);
        }
        Ok(self.of_workload(snapshot, alive))
    }

    /// A task of this node, for which the node itself asks: the rights are those that the task has
    /// with its token, which it need not have yet. `None` where no such task is placed there.
    pub(crate) fn workload_of_node(
        &self,
        snapshot: &Snapshot,
        node: NodeId,
        place: (AllocId, &str),
    ) -> Option<Asker> {
        let (alloc, job) = placed(snapshot, place).ok()?;
        if alloc.node_id != node {
            return None;
        }
        let workload = Workload::of(alloc, job, place.1, Uuid::nil(), None);
        let mut asker = self.of_workload(snapshot, workload);
        if !self.is_on() {
            asker.acl = self.open(snapshot).acl;
        }
        Some(asker)
    }

    /// A workload with its rights.
    pub(super) fn of_workload(&self, snapshot: &Snapshot, workload: Workload) -> Asker {
        Asker {
            acl: self.rights().lock().of_workload(snapshot, &workload),
            expires: workload.ends(),
            caller: Caller::Workload(Arc::new(workload)),
            acl_index: snapshot.acl_index(),
        }
    }
}

/// Audience and times, by the later of both clocks.
fn check(claims: &IdentityClaims, snapshot: &Snapshot, now: UnixNanos) -> Result<(), Rejected> {
    let now = now.max(snapshot.now());
    let seconds = u64::try_from(now.0 / 1_000_000_000).unwrap_or(0);
    claims.check(seconds).map_err(|error| match error {
        ClaimsError::Audience => Rejected::Audience,
        ClaimsError::Expired => Rejected::Expired,
        ClaimsError::TooEarly => Rejected::TooEarly,
        ClaimsError::Claim(_) => Rejected::Malformed,
    })
}
