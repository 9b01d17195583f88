//! Allocations that the restored cluster does not know: shown, and ended when a person says so.

use protocol_model::{AllocId, ClientStatus};
use serde::Serialize;
use tokio::sync::oneshot;

use super::{CallEnd, CallFailed, CallServer, Replies};
use crate::input::Question;

/// What a person recognizes one by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ForeignAlloc {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: AllocId,
    /// Its name.
    pub name: String,
    /// Of which namespace.
    pub namespace: String,
    /// Of which job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// Of which group.
    pub task_group: String,
    /// What it does.
    pub client_status: ClientStatus,
}

/// What is wanted of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignWish {
    /// To be listed.
    List,
    /// To be ended, all.
    Release,
}

impl CallServer {
    pub(super) async fn foreign(
        &self,
        alloc_id: &[u8],
        wish: ForeignWish,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        if !alloc_id.is_empty() {
            let problem = "this is asked of a node, not of a single allocation";
            return Err(CallFailed::bad(problem).into());
        }
        let (answer, listed) = oneshot::channel();
        self.ask(Question::Foreign { wish, answer }).await?;
        let listed = listed.await.map_err(|_| CallEnd::Gone)?;
        replies.json(&listed).await
    }
}
