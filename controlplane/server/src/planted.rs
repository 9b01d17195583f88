//! Bugs that a simulator plants in a server, to prove that it finds them.
//!
//! No configuration, flag or environment variable leads here: a bug comes with the
//! [`Ground`](crate::Ground) that a simulator makes, and a server of this host has none.

use std::collections::BTreeMap;
use std::net::IpAddr;

use parking_lot::Mutex;

use crate::access::{Asker, Rejected};

/// A bug in how callers are judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantedBug {
    /// Consistent reads are answered without a read barrier.
    NoReadBarrier,
    /// A leader does not judge the caller of a change once more.
    NoSecondLook,
    /// The first caller of a connection is that of all its requests.
    CallerKept,
}

/// The bug of this server, and the memory that one of them needs.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    bug: Option<PlantedBug>,
    /// With [`PlantedBug::CallerKept`]: the first caller of each connection, by its address.
    kept: Mutex<BTreeMap<IpAddr, Asker>>,
}

impl Planted {
    /// A server with this bug.
    pub(crate) fn new(bug: Option<PlantedBug>) -> Self {
        Self {
            bug,
            kept: Mutex::default(),
        }
    }

    /// Whether the server has this bug.
    pub(crate) fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    /// The caller that `resolve` finds: without a bug that, and nothing else.
    pub(crate) fn caller(
        &self,
        address: IpAddr,
        resolve: impl FnOnce() -> Result<Asker, Rejected>,
    ) -> Result<Asker, Rejected> {
        if !self.has(PlantedBug::CallerKept) {
            return resolve();
        }
        if let Some(kept) = self.kept.lock().get(&address) {
            return Ok(kept.clone());
        }
        let found = resolve()?;
        self.kept.lock().insert(address, found.clone());
        Ok(found)
    }
}
