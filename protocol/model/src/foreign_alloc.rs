//! An allocation that runs on a node although the cluster does not know it, since it was restored
//! from a snapshot.

use serde::{Deserialize, Serialize};

use crate::{AllocId, ClientStatus};

/// The parts of it by which a person recognizes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ForeignAlloc {
    #[serde(rename = "ID")]
    pub id: AllocId,
    #[serde(default)]
    pub name: String,
    pub namespace: String,
    #[serde(rename = "JobID")]
    pub job_id: String,
    pub task_group: String,
    pub client_status: ClientStatus,
}
