//! `GET /v1/var/:path`.

use std::sync::atomic::{AtomicU64, Ordering};

use controlplane_state::{Snapshot, Table, VariableKey};

use super::key;
use super::shown::{self, LockId};
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};

pub(super) async fn read(ask: &Ask) -> Answered {
    let key = key(ask, "")?;
    let moved = Moved::default();
    let snapshot = ask
        .snapshot_after(|snapshot| moved.index(snapshot, &key))
        .await?;
    let Some(variable) = snapshot.variable(&key) else {
        return Err(HttpError::not_found("variable not found"));
    };
    let shown = shown::whole(ask, variable, LockId::on_read(ask)).await?;
    ask.answer(&shown, variable.modify_index)
}

/// The index at which one variable changed, for a query that waits: changes of others do not wake
/// it. The state keeps no index of a variable that is gone, so the index of the table stands for
/// it, as it was when the query came.
#[derive(Debug, Default)]
struct Moved {
    missing: AtomicU64,
}

impl Moved {
    fn index(&self, snapshot: &Snapshot, key: &VariableKey) -> u64 {
        if let Some(variable) = snapshot.variable(key) {
            self.missing.store(0, Ordering::Relaxed);
            return variable.modify_index;
        }
        let now = snapshot.table_index(&[Table::Variables]).max(1);
        match self.missing.load(Ordering::Relaxed) {
            0 => {
                self.missing.store(now, Ordering::Relaxed);
                now
            }
            since => since,
        }
    }
}
