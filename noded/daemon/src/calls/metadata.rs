//! The node's metadata: read, and changed by callers.

use std::sync::Arc;

use protocol_error_chain::chain;
use protocol_wire::v1;

use super::{CallEnd, CallFailed, CallServer, Replies};
use crate::metadata::MetadataError;

impl CallServer {
    pub(super) async fn read_meta(&self, replies: &mut Replies) -> Result<(), CallEnd> {
        let config = self.executor.config.now();
        replies.json(&self.metadata.shown(&config.meta)).await
    }

    pub(super) async fn apply_meta(
        &self,
        request: v1::ApplyMetaRequest,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let changes = request.changes.into_iter();
        let changes = changes.map(|change| (change.key, change.value)).collect();
        let metadata = Arc::clone(&self.metadata);
        let applied = self
            .look(move |node| {
                let config = node.config.now();
                let applied = metadata.apply(changes, &config.meta);
                applied.map_err(|error| failed(&error).into())
            })
            .await?;
        tracing::info!(
            dynamic = applied.dynamic.len(),
            "the metadata of this node was changed"
        );
        replies.json(&applied).await
    }
}

fn failed(error: &MetadataError) -> CallFailed {
    match error {
        MetadataError::Refused(error) => CallFailed::bad(error.to_string()),
        MetadataError::Unreadable { .. } | MetadataError::Write { .. } => {
            CallFailed::new(500, chain(error))
        }
    }
}
