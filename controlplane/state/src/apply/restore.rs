//! An operator's checkpoint takes the place of the state.
//!
//! ```text
//!   RestoreBegin --> RestoreChunk ... RestoreChunk --> RestoreCommit --> another incarnation
//!        |                                                  |
//!        +---- RestoreDrop, a minute of silence ------------+--> nothing changed
//! ```
//!
//! What belongs to this cluster and not to the one that was saved stays: the log and its members
//! (which are no part of the state), the time, which never goes back, and the index, which goes on
//! above both histories' indexes. So no session epoch, version or index that anybody has seen means
//! something else afterwards, and whoever waits for a change sees one.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use protocol_error_chain::chain;
use protocol_model::{Incarnation, Node, NodeId, NodeStatus};
use sha2::{Digest as _, Sha256};

use super::draft::Draft;
use crate::access::AclTokenKind;
use crate::applied::{Outcome, Refusal, Signal};
use crate::checkpoint::{RESTORE_RECORDS_BYTES_MAX, Unpacked};
use crate::record::{Digest, NodeRecord, SessionState};
use crate::restore::{ClientTokens, PendingRestore, RESTORE_BYTES_MAX, RESTORE_CHUNK_BYTES_MAX};
use crate::state::State;
use crate::tables::{Table, Tables};

impl Draft {
    pub(crate) fn restore_begin(
        &mut self,
        incarnation: Incarnation,
        bytes: u64,
        sha256: Digest,
        client_tokens: ClientTokens,
    ) -> Result<Outcome, Refusal> {
        if self.tables.cluster.incarnation == Some(incarnation) {
            return Err(Refusal::AlreadyInitialized);
        }
        if bytes > RESTORE_BYTES_MAX {
            return Err(Refusal::RestoreTooLarge {
                bytes,
                bytes_max: RESTORE_BYTES_MAX,
            });
        }
        match &self.tables.pending_restore {
            Some(pending) if pending.incarnation == incarnation => return Ok(Outcome::NoOp),
            // One that its sender gave up is gone already: a draft begins without it.
            Some(pending) => {
                return Err(Refusal::RestoreInProgress {
                    received: pending.received,
                    bytes: pending.bytes,
                });
            }
            None => {}
        }
        let pending = PendingRestore::new(incarnation, bytes, sha256, client_tokens, self.now);
        self.tables.pending_restore = Some(pending);
        Ok(Outcome::Done)
    }

    pub(crate) fn restore_chunk(
        &mut self,
        incarnation: Incarnation,
        offset: u64,
        chunk: Bytes,
    ) -> Result<Outcome, Refusal> {
        let now = self.now;
        let pending = self.pending_restore(incarnation)?;
        let end = offset.saturating_add(chunk.len() as u64);
        // Heard twice.
        if end <= pending.received {
            return Ok(Outcome::NoOp);
        }
        if offset != pending.received {
            return Err(Refusal::RestoreGap {
                offset,
                expected: pending.received,
            });
        }
        if chunk.len() > RESTORE_CHUNK_BYTES_MAX || end > pending.bytes {
            return Err(Refusal::malformed("a piece of a restore is too long"));
        }
        pending.push(chunk, now);
        Ok(Outcome::Done)
    }

    pub(crate) fn restore_drop(&mut self, incarnation: Incarnation) -> Outcome {
        match &self.tables.pending_restore {
            Some(pending) if pending.incarnation == incarnation => {
                self.tables.pending_restore = None;
                Outcome::Done
            }
            Some(_) | None => Outcome::NoOp,
        }
    }

    pub(crate) fn restore_commit(&mut self, incarnation: Incarnation) -> Result<Outcome, Refusal> {
        if self.tables.cluster.incarnation == Some(incarnation) {
            return Ok(Outcome::NoOp);
        }
        let pending = self.pending_restore(incarnation)?.clone();
        if pending.received != pending.bytes {
            return Err(Refusal::RestoreGap {
                offset: pending.bytes,
                expected: pending.received,
            });
        }
        if digest(pending.reader()) != Some(pending.sha256) {
            return Err(Refusal::BadCheckpoint(
                "its SHA-256 is not the one that was announced".to_owned(),
            ));
        }
        let limit = Unpacked::AtMost(RESTORE_RECORDS_BYTES_MAX);
        let restored = State::restore_at_most(pending.reader(), limit)
            .map_err(|error| Refusal::BadCheckpoint(chain(&error)))?;
        if restored.tables().cluster.incarnation.is_none() {
            let empty = "it is of a cluster before its first entry".to_owned();
            return Err(Refusal::BadCheckpoint(empty));
        }
        self.replace_by(restored.into_tables());
        self.begin_incarnation(incarnation);
        self.forget_sessions();
        if pending.client_tokens == ClientTokens::LeftOut {
            self.leave_client_tokens_out();
        }
        // Rights, one-time tokens and keys are those of the checkpoint now.
        self.signal(Signal::AclChanged);
        Ok(Outcome::Done)
    }

    fn pending_restore(
        &mut self,
        incarnation: Incarnation,
    ) -> Result<&mut PendingRestore, Refusal> {
        let pending = self.tables.pending_restore.as_mut();
        pending
            .filter(|pending| pending.incarnation == incarnation)
            .ok_or(Refusal::RestoreUnknown)
    }

    /// The tables of another history, at an index above every one of both.
    fn replace_by(&mut self, mut tables: Tables) {
        let log_index = self.index - self.tables.log_offset;
        self.index = self.index.max(tables.index.saturating_add(1));
        tables.index = self.index;
        tables.log_offset = self.index - log_index;
        tables.now = self.now;
        // A restore that the saved cluster had under way is none of ours.
        tables.pending_restore = None;
        let version = self.tables.checkpoint_version;
        tables.checkpoint_version = version.max(tables.checkpoint_version);
        // A value that was sealed before the restore never names a key that is made after it.
        let numbered = &mut tables.access.root_keys_numbered;
        *numbered = (*numbered).max(self.tables.access.root_keys_numbered);
        self.tables = tables;
        for table in Table::ALL {
            self.tables.touch(table);
        }
    }

    fn leave_client_tokens_out(&mut self) {
        let tokens = self.tables.acl_tokens();
        let clients = tokens.filter(|token| token.kind == AclTokenKind::Client);
        let accessors: Vec<String> = clients.map(|token| token.accessor_id.clone()).collect();
        for accessor in accessors {
            self.tables.remove_acl_token(&accessor);
        }
        let one_time = self.tables.one_time_tokens_by_expiry();
        let digests: Vec<Digest> = one_time.map(|(_, digest)| digest).collect();
        for digest in digests {
            self.tables.remove_one_time_token(&digest);
        }
    }

    /// No session of either history goes on: every node that is not known to be silent owes its
    /// complete report before it is ready again, and counts as silent when it does not come. Those
    /// that were silent then may have been heard since: of them, too, silence counts from now, so
    /// that no lease is taken for over that was extended meanwhile. So it is with what is left of
    /// nodes that were purged then.
    fn forget_sessions(&mut self) {
        let records: Vec<Arc<NodeRecord>> = self.tables.nodes().cloned().collect();
        for record in records {
            let mut record = NodeRecord::clone(&record);
            record.session = SessionState::default();
            record.owes_evals = true;
            record.fell_silent_at = record.silent_since().map(|_| self.now);
            let mut node = Node::clone(&record.node);
            if matches!(node.status, NodeStatus::Ready | NodeStatus::Initializing) {
                node.status = NodeStatus::Initializing;
                node.status_description =
                    "the cluster was restored from a snapshot: owes its complete report".to_owned();
            }
            node.status_updated_at = self.now.0 / 1_000_000_000;
            node.modify_index = self.index;
            record.node = Arc::new(node);
            self.tables.put_node(record);
        }
        let nodes: BTreeSet<NodeId> = self.tables.allocs().map(|alloc| alloc.node_id).collect();
        for node in nodes {
            if self.tables.node(node).is_none() {
                self.leave_on_lease(node, self.now);
            }
        }
    }
}

fn digest(mut input: impl Read) -> Option<Digest> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; RESTORE_CHUNK_BYTES_MAX];
    loop {
        match input.read(&mut buffer).ok()? {
            0 => return Some(Digest(hasher.finalize().into())),
            count => hasher.update(&buffer[..count]),
        }
    }
}
