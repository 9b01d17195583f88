//! From a task of an allocation to the claims that are signed for it.

use protocol_model::{Allocation, Job, UnixNanos, WorkloadIdentity};
use uuid::Uuid;

use super::{IdentityClaims, OWN_AUDIENCE, RSA_KID_SUFFIX};
use crate::jwt::SigningAlgorithm;

/// The space of the ids of tokens: their names are all that they are a function of.
const TOKEN_IDS: Uuid = Uuid::from_u128(0x6f0d_5a0e_9a59_4a3f_8f2b_31c0_7d44_1e6b);

/// The task that an identity is of.
#[derive(Clone, Copy, Debug)]
pub struct IdentitySubject<'a> {
    /// Its allocation.
    pub alloc: &'a Allocation,
    /// The specification that the allocation runs.
    pub job: &'a Job,
    /// Its name.
    pub task: &'a str,
}

/// The algorithm of an identity: EdDSA where the API alone reads it, RS256 otherwise, because
/// relying parties such as cloud providers take nothing else.
pub fn signing_algorithm(identity: &WorkloadIdentity) -> SigningAlgorithm {
    match identity.audience.as_slice() {
        [one] if one == OWN_AUDIENCE => SigningAlgorithm::EdDsa,
        _ => SigningAlgorithm::Rs256,
    }
}

/// The name of a root key's signing key, as headers and JWKS have it.
pub fn kid_of(root_key: Uuid, algorithm: SigningAlgorithm) -> String {
    match algorithm {
        SigningAlgorithm::EdDsa => root_key.to_string(),
        _ => format!("{root_key}{RSA_KID_SUFFIX}"),
    }
}

/// The claims of a task's identity, signed with root key `root_key`. `now` matters with a ttl only.
pub fn claims_of(
    subject: IdentitySubject<'_>,
    identity: &WorkloadIdentity,
    root_key: Uuid,
    issuer: Option<&str>,
    now: UnixNanos,
) -> IdentityClaims {
    let IdentitySubject { alloc, job, task } = subject;
    // A child shows its parent: policies and relying parties name what people wrote.
    let job_id = match job.parent_id.as_str() {
        "" => &alloc.job_id,
        parent => parent,
    };
    let ttl = identity.ttl.as_secs();
    let issued_at = seconds(if ttl == 0 { alloc.create_time } else { now });
    let group = &alloc.task_group;
    let parts = [
        &job.region,
        &alloc.namespace,
        job_id,
        group,
        task,
        &identity.name,
    ];
    let mut claims = IdentityClaims {
        namespace: alloc.namespace.clone(),
        job_id: job_id.to_owned(),
        alloc_id: alloc.id,
        task: task.to_owned(),
        subject: parts.join(":"),
        audiences: identity.audience.clone(),
        issued_at,
        not_before: issued_at,
        expires_at: (ttl > 0).then(|| issued_at.saturating_add(ttl)),
        id: Uuid::nil(),
        issuer: issuer.map(str::to_owned),
    };
    let all = serde_json::to_vec(&(&claims, root_key)).expect("texts and numbers are JSON");
    claims.id = Uuid::new_v5(&TOKEN_IDS, &all);
    claims
}

fn seconds(time: UnixNanos) -> u64 {
    u64::try_from(time.0 / 1_000_000_000).unwrap_or(0)
}
