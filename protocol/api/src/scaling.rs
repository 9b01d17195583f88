//! Scaling policies: the `scaling` blocks of all jobs that are not stopped.

use std::collections::BTreeMap;

use protocol_model::{ScalingPolicy, nullable};
use serde::{Deserialize, Serialize};

use crate::endpoint::Parameter;
use crate::needs::{LIST_SCALING_POLICIES, READ_SCALING_POLICY};
use crate::operation::operations;

operations! {
    /// list scaling policies
    ListScalingPolicies {} -> Vec<ScalingPolicyStub> = get("/v1/scaling/policies", LIST_SCALING_POLICIES).parameters(&[
        Parameter::text("job", "only policies of this job"),
        Parameter::text("type", "only policies whose type begins so"),
    ]);
    /// read a scaling policy
    ReadScalingPolicy { id } -> ScalingPolicy = get("/v1/scaling/policy/{id}", READ_SCALING_POLICY);
}

/// A policy in [`ListScalingPolicies`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScalingPolicyStub {
    /// The same in all versions of the job.
    #[serde(rename = "ID")]
    pub id: String,
    pub enabled: bool,
    #[serde(rename = "Type")]
    pub scaling_type: String,
    /// `Namespace`, `Job`, `Group`, `Task`.
    #[serde(with = "nullable")]
    pub target: BTreeMap<String, String>,
    pub create_index: u64,
    pub modify_index: u64,
}
