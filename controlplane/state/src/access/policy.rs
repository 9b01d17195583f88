//! Policies: named documents of rules.

use protocol_model::JobKey;
use serde::{Deserialize, Serialize};

use super::{ACL_DESCRIPTION_LEN_MAX, is_acl_name};

/// The most policies that a cluster keeps.
pub const ACL_POLICIES_MAX: usize = 10_000;
/// The longest document of rules, in bytes.
pub const ACL_POLICY_BYTES_MAX: usize = 64 * 1024;

/// A policy.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AclPolicy {
    /// Its name.
    pub name: String,
    /// Its purpose, for people.
    pub description: String,
    /// Its rules, in HCL or JSON, as they were written. The state does not read them.
    pub rules: String,
    /// The workloads that it joins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_acl: Option<JobAcl>,
    /// The log index of its creation.
    pub create_index: u64,
    /// The log index of its last change.
    pub modify_index: u64,
}

/// The workloads that a policy joins: of a namespace, a job, a group or a task. Each part needs the
/// one before; an empty part means all.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobAcl {
    /// The namespace.
    pub namespace: String,
    /// The job's id.
    pub job_id: String,
    /// The task group.
    pub group: String,
    /// The task.
    pub task: String,
}

/// Why a policy is not written. The texts are Nomad's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum PolicyFault {
    /// Its name is none.
    #[error("invalid name '{0}'")]
    Name(String),
    /// Its description is too long.
    #[error("description longer than {ACL_DESCRIPTION_LEN_MAX}")]
    DescriptionTooLong,
    /// Its rules are too long.
    #[error("rules have {bytes} bytes: at most {ACL_POLICY_BYTES_MAX} are allowed")]
    RulesTooLong {
        /// Their length.
        bytes: usize,
    },
    /// The policy names a job and no namespace.
    #[error("namespace must be set to set job ID")]
    JobWithoutNamespace,
    /// The policy names a group and no job.
    #[error("job ID must be set to set group")]
    GroupWithoutJob,
    /// The policy names a task and no group.
    #[error("group must be set to set task")]
    TaskWithoutGroup,
}

impl AclPolicy {
    /// The first fault of a policy that is to be written. The rules themselves are not read here.
    pub fn fault(&self) -> Option<PolicyFault> {
        if !is_acl_name(&self.name) {
            return Some(PolicyFault::Name(self.name.clone()));
        }
        if self.description.len() > ACL_DESCRIPTION_LEN_MAX {
            return Some(PolicyFault::DescriptionTooLong);
        }
        let bytes = self.rules.len();
        if bytes > ACL_POLICY_BYTES_MAX {
            return Some(PolicyFault::RulesTooLong { bytes });
        }
        let JobAcl {
            namespace,
            job_id,
            group,
            task,
        } = self.job_acl.as_ref()?;
        if namespace.is_empty() && !job_id.is_empty() {
            return Some(PolicyFault::JobWithoutNamespace);
        }
        if job_id.is_empty() && !group.is_empty() {
            return Some(PolicyFault::GroupWithoutJob);
        }
        (group.is_empty() && !task.is_empty()).then_some(PolicyFault::TaskWithoutGroup)
    }

    /// The place in the index of policies by job: one with an empty job id is of all jobs of its
    /// namespace. `None` where the policy joins no workload.
    pub(crate) fn job_key(&self) -> Option<JobKey> {
        let JobAcl {
            namespace, job_id, ..
        } = self.job_acl.as_ref()?;
        (!namespace.is_empty()).then(|| JobKey::new(namespace.clone(), job_id.clone()))
    }
}
