//! An immutable view of the whole state at one index: what the scheduler, the leader's parts, the
//! gateway and the HTTP API read.

use std::ops::Deref;
use std::sync::Arc;

use crate::tables::Tables;

/// The state at one index. Cloning it costs one reference count; its methods are those of
/// [`Tables`].
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    tables: Arc<Tables>,
}

impl Snapshot {
    pub(crate) fn new(tables: Tables) -> Self {
        Self {
            tables: Arc::new(tables),
        }
    }
}

impl Deref for Snapshot {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.tables
    }
}
