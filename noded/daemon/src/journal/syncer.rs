//! The thread that brings the file to the disk: one fdatasync for everything that is written.

use std::sync::Arc;

use super::Disk;
use super::shared::{Shared, Trust};

/// Syncs whenever somebody waits for it, until the journal is closed.
pub(super) fn run(shared: &Shared, disk: Disk) {
    loop {
        let mut state = shared.lock();
        while !state.closing && !state.wants_sync() {
            shared.sync_work.wait(&mut state);
        }
        if state.closing {
            return;
        }
        let (file, generation) = (Arc::clone(&state.file), state.generation);
        let written = state.written;
        drop(state);
        let synced = (disk.sync)(&file);
        let mut state = shared.lock();
        // Of a file that was replaced meanwhile it is of no interest.
        if state.generation == generation {
            match synced {
                Ok(()) => state.synced = state.synced.max(written),
                Err(error) => {
                    tracing::error!(%error, "the journal cannot be synced; a new journal file is written");
                    state.trust = Trust::Lost;
                }
            }
        }
        drop(state);
        (shared.on_progress)();
    }
}
