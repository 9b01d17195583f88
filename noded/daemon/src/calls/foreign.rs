//! Allocations that the restored cluster does not know: shown, and ended when a person says so.

use tokio::sync::oneshot;

use super::{CallEnd, CallFailed, CallServer, Replies};
use crate::input::Question;

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
