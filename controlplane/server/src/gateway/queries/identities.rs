//! Identities, signed for the node that their allocations are placed on.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use controlplane_keyring::{Keyring, KeyringError};
use controlplane_state::Snapshot;
use protocol_access::identity::{IdentityClaims, IdentitySubject, claims_of, signing_algorithm};
use protocol_access::jwt::SigningAlgorithm;
use protocol_model::{AllocId, Allocation, Job, NodeId, Task, UnixNanos, WorkloadIdentity};
use protocol_wire::v1;
use protocol_wire::v1::IdentityRejection as Rejection;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::signed_identity::Result as Signed;
use tokio::task::spawn_blocking;

use super::super::Gateway;
use super::super::streams::OwnStream;
use super::QueryFailure;

/// The most identities of one question.
pub(super) const IDENTITIES_MAX: usize = 256;

/// How many questions are signed at a time: one per core, so that RS256, 0.7 ms each, leaves the
/// blocking threads to others.
pub(in crate::gateway) fn places() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Signs the identities that are asked for. The others are rejected one by one.
pub(super) async fn sign(
    gateway: &Arc<Gateway>,
    own: &OwnStream,
    asked: v1::SignIdentities,
    snapshot: Snapshot,
) -> Result<Reply, QueryFailure> {
    let found = asked.identities.len();
    if found > IDENTITIES_MAX {
        let message = format!("{found} identities: at most {IDENTITIES_MAX} are signed at a time");
        return Err((400, message));
    }
    let place = gateway.signing_places.acquire().await;
    let work = Work {
        snapshot,
        node: own.node,
        keyring: gateway.keyring.clone(),
        issuer: gateway.issuer.clone(),
        now: gateway.cluster.wall_clock(),
    };
    let signed = spawn_blocking(move || work.sign_all(&asked.identities)).await;
    drop(place);
    let identities = signed.map_err(|error| (500, error.to_string()))??;
    Ok(Reply::Signed(v1::SignedIdentities { identities }))
}

/// Everything that signing needs, apart from the runtime.
struct Work {
    snapshot: Snapshot,
    node: NodeId,
    keyring: Keyring,
    issuer: Option<String>,
    now: UnixNanos,
}

impl Work {
    fn sign_all(
        &self,
        asked: &[v1::IdentityName],
    ) -> Result<Vec<v1::SignedIdentity>, QueryFailure> {
        let signed = asked.iter().map(|name| {
            let result = match self.find(name) {
                Ok(found) => self.sign(&found).map(Signed::Token)?,
                Err(rejection) => Signed::Rejection(rejection.into()),
            };
            let result = Some(result);
            Ok(v1::SignedIdentity { result })
        });
        let signed: Result<_, KeyringError> = signed.collect();
        signed.map_err(|error| (503, error.to_string()))
    }

    /// The identity, where its allocation is placed on the node that asks and not over.
    fn find(&self, name: &v1::IdentityName) -> Result<Identity<'_>, Rejection> {
        let id = AllocId::from_slice(&name.alloc_id);
        let alloc = id.and_then(|id| self.snapshot.alloc(id));
        let alloc = alloc.filter(|alloc| alloc.node_id == self.node && !alloc.client_terminal());
        let alloc = alloc.ok_or(Rejection::AllocNotFound)?;
        let job = self.snapshot.spec(alloc.spec);
        let job = job.ok_or(Rejection::AllocNotFound)?;
        let task = task_of(job, &alloc.task_group, &name.task).ok_or(Rejection::TaskNotFound)?;
        let identity = identity_of(task, &name.identity).ok_or(Rejection::IdentityNotFound)?;
        Ok(Identity {
            alloc,
            job,
            task: &task.name,
            identity,
        })
    }

    fn sign(&self, found: &Identity<'_>) -> Result<v1::IdentityToken, KeyringError> {
        let stamped = self.snapshot.alloc_key(found.alloc.id);
        // An allocation from before identities is moved to the active key in a moment.
        let active = || self.snapshot.active_root_key().map(|key| key.number);
        let number = match stamped {
            0 => active().ok_or(KeyringError::NoRootKey)?,
            number => number,
        };
        let signer = self.keyring.signer(number)?;
        let subject = IdentitySubject {
            alloc: found.alloc,
            job: found.job,
            task: found.task,
        };
        let algorithm: SigningAlgorithm = signing_algorithm(found.identity);
        let issuer = self.issuer.as_deref();
        let claims: IdentityClaims =
            claims_of(subject, found.identity, signer.id(), issuer, self.now);
        Ok(v1::IdentityToken {
            jwt: signer.sign(algorithm, &claims),
            issued_at: claims.issued_at,
            expires_at: claims.expires_at.unwrap_or(0),
            root_key: number,
        })
    }
}

/// An identity block of a task of an allocation.
struct Identity<'a> {
    alloc: &'a Allocation,
    job: &'a Job,
    task: &'a str,
    identity: &'a WorkloadIdentity,
}

fn task_of<'a>(job: &'a Job, group: &str, name: &str) -> Option<&'a Task> {
    let group = job.task_groups.iter().find(|it| it.name == group)?;
    group.tasks.iter().find(|task| task.name == name)
}

fn identity_of<'a>(task: &'a Task, name: &str) -> Option<&'a WorkloadIdentity> {
    let all = task.identity.iter().chain(&task.identities);
    let mut all = all;
    all.find(|identity| identity.name == name)
}
