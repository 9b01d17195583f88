//! Allocations move to the root key that signs now.

use std::sync::Arc;

use protocol_model::Allocation;

use super::outcome;
use crate::applied::{AccessRefusal, Outcome, Refusal};
use crate::apply::Draft;
use crate::apply::draft::AllocTouch;
use crate::command::{AllocsResign, RESIGN_ALLOCS_MAX};

impl Draft {
    /// Moves allocations to the active key, and begins identities where that was not done.
    pub(super) fn allocs_resign(&mut self, command: &AllocsResign) -> Result<Outcome, Refusal> {
        let AllocsResign { key, allocs } = command;
        let (found, max) = (allocs.len(), RESIGN_ALLOCS_MAX);
        if found > max {
            return Err(AccessRefusal::TooManyRows { found, max }.into());
        }
        let active = self.tables.active_root_key();
        let active = active.map_or(0, |active| active.number);
        if active == 0 || active != *key {
            let (wanted, found) = (*key, active);
            return Err(AccessRefusal::RootKeyMoved { wanted, found }.into());
        }
        let mut changed = !self.tables.access.identities_begun;
        self.tables.access.identities_begun = true;
        for id in allocs {
            let Some(alloc) = self.tables.alloc(*id).map(Arc::clone) else {
                continue;
            };
            if alloc.client_terminal() || self.tables.alloc_key(*id) == active {
                continue;
            }
            changed = true;
            // The version rises: the node's watch carries the new key.
            self.put_alloc_signed(Allocation::clone(&alloc), AllocTouch::Desired, active);
        }
        Ok(outcome(changed))
    }
}
