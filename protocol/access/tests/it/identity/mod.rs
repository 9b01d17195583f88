//! Workload identities: the claims of tasks, and tokens that are refused.

mod claims;
mod refused;

use protocol_access::identity::{IdentityClaims, IdentitySubject, claims_of};
use protocol_model::{AllocId, Allocation, Job, UnixNanos, WorkloadIdentity};
use uuid::Uuid;

pub(crate) const CREATED: UnixNanos = UnixNanos(1_700_000_000_123_456_789);
pub(crate) const NOW: UnixNanos = UnixNanos(1_700_000_600_000_000_000);
pub(crate) const ROOT_KEY: Uuid = Uuid::from_u128(0x0203);

/// An allocation of group `front` of a job, which may have a parent.
pub(crate) fn placed(job_id: &str, parent: &str) -> (Allocation, Job) {
    let job: Job = serde_json::from_value(serde_json::json!({
        "ID": job_id, "Region": "global", "Namespace": "dev", "ParentID": parent,
    }))
    .expect("a job");
    let alloc: Allocation = serde_json::from_value(serde_json::json!({
        "ID": AllocId::from_u128(7).to_string(),
        "Namespace": "dev",
        "EvalID": AllocId::from_u128(8).to_string(),
        "Name": format!("{job_id}.front[0]"),
        "NodeID": AllocId::from_u128(9).to_string(),
        "JobID": job_id,
        "TaskGroup": "front",
        "CreateTime": CREATED.0,
    }))
    .expect("an allocation");
    (alloc, job)
}

pub(crate) fn identity(name: &str, audience: &[&str], ttl_seconds: u64) -> WorkloadIdentity {
    WorkloadIdentity {
        name: name.to_owned(),
        audience: audience.iter().map(|one| (*one).to_owned()).collect(),
        ttl: std::time::Duration::from_secs(ttl_seconds),
        ..WorkloadIdentity::default()
    }
}

pub(crate) fn issued(identity: &WorkloadIdentity, issuer: Option<&str>) -> IdentityClaims {
    let (alloc, job) = placed("web", "");
    let subject = IdentitySubject {
        alloc: &alloc,
        job: &job,
        task: "api",
    };
    claims_of(subject, identity, ROOT_KEY, issuer, NOW)
}
