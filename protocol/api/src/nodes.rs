//! Nodes.

use std::collections::BTreeMap;

use protocol_model::{Allocation, DrainSpec, EvalId, ForeignAlloc, Node, NodeListStub, nullable};
use serde::{Deserialize, Serialize};

use crate::endpoint::Parameter;
use crate::needs::{MANAGEMENT, NODE_READ, NODE_WRITE};
use crate::operation::operations;
use crate::parameters::{NEXT_TOKEN, PER_PAGE, PREFIX, RESOURCES, REVERSE};

operations! {
    /// list nodes
    ListNodes {} -> Vec<NodeListStub> = get("/v1/nodes", NODE_READ).filterable().parameters(&[
        PREFIX,
        PER_PAGE,
        NEXT_TOKEN,
        REVERSE,
        RESOURCES,
        Parameter::flag("os", "with the attributes of the operating system"),
    ]);
    /// read a node
    ReadNode { id } -> Node = get("/v1/node/{id}", NODE_READ);
    /// list the allocations of a node, whole
    NodeAllocations { id } -> Vec<Allocation> = get("/v1/node/{id}/allocations", NODE_READ);
    /// let a node take new allocations, or not
    SetEligibility { id } (EligibilityRequest) -> NodeChanged = put("/v1/node/{id}/eligibility", NODE_WRITE);
    /// move allocations off a node before a deadline, or end that
    DrainNode { id } (DrainRequest) -> NodeChanged = put("/v1/node/{id}/drain", NODE_WRITE);
    /// evaluate every job that has allocations on a node
    EvaluateNode { id } -> NodeChanged = put("/v1/node/{id}/evaluate", NODE_WRITE);
    /// forget a node
    PurgeNode { id } -> NodeChanged = put("/v1/node/{id}/purge", NODE_WRITE);
    /// list what runs on a node and a restored state does not know
    ForeignAllocations { id } -> Vec<ForeignAlloc> = get("/v1/node/{id}/foreign-allocations", NODE_READ).of_node();
    /// end what a restored state does not know ([snapshots.md](snapshots.md))
    ReleaseForeign { id } -> Vec<ForeignAlloc> = put("/v1/node/{id}/release-foreign", MANAGEMENT).of_node();
}

/// The body of [`SetEligibility`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct EligibilityRequest {
    /// `eligible` or `ineligible`.
    pub eligibility: String,
}

/// The body of [`DrainNode`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DrainRequest {
    /// How the node is drained; `null` ends its drain.
    pub drain_spec: Option<DrainSpec>,
    /// Whether the node takes allocations again, where its drain ends.
    pub mark_eligible: bool,
    /// Notes, shown with the node's last drain.
    pub meta: Option<BTreeMap<String, String>>,
}

/// The answer of a change of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeChanged {
    /// The evaluations that it makes.
    #[serde(rename = "EvalIDs", deserialize_with = "nullable::deserialize")]
    pub eval_ids: Vec<EvalId>,
    /// 0 where there are none.
    pub eval_create_index: u64,
    pub node_modify_index: u64,
    pub index: u64,
}
