//! The sockets of tasks in keeper's custody: those that this noded inherits from the one before,
//! and copies of its own for keeper.
//!
//! ```text
//!   start: keeper --Take--> inherited --listen--> adopted, if its file is still in its place
//!                               |                 else bound anew --Hold--> keeper
//!                               `--no such task: dropped, Drop --> keeper
//! ```

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use noded_keeper::client::HeldSocket;
use protocol_model::AllocId;

use super::{SocketOwner, TaskApi};

impl TaskApi {
    /// Takes in what keeper held while no noded was there. Sockets of other names are left to it.
    pub(crate) fn inherit(&self, held: Vec<HeldSocket>) {
        let sockets = held.into_iter().filter_map(|held| {
            let owner = SocketOwner {
                alloc: held.owner.alloc().parse().ok()?,
                task: held.owner.task().to_owned(),
            };
            Some((owner, held.socket))
        });
        self.inherited.lock().extend(sockets);
    }

    /// Whether the socket of a task was inherited and not taken up yet.
    pub(crate) fn has_inherited(&self, owner: &SocketOwner) -> bool {
        self.inherited.lock().contains_key(owner)
    }

    /// Closes the sockets that were inherited and not taken up, and answers their allocations.
    pub(crate) fn drop_all_inherited(&self) -> BTreeSet<AllocId> {
        let inherited = std::mem::take(&mut *self.inherited.lock());
        inherited.keys().map(|owner| owner.alloc).collect()
    }

    /// The tasks whose sockets listen.
    pub(crate) fn listening(&self) -> Vec<SocketOwner> {
        self.sockets.lock().keys().cloned().collect()
    }

    /// Whether a task of this allocation has a socket that listens.
    pub(crate) fn has_listening(&self, alloc: AllocId) -> bool {
        self.sockets.lock().keys().any(|owner| owner.alloc == alloc)
    }

    /// A copy of a task's listening socket; `None` where it does not listen (any more).
    ///
    /// # Errors
    /// Where no further descriptor can be open.
    pub(crate) fn copy(&self, owner: &SocketOwner) -> io::Result<Option<OwnedFd>> {
        let sockets = self.sockets.lock();
        let Some(listening) = sockets.get(owner) else {
            return Ok(None);
        };
        listening.socket.try_clone().map(|copy| Some(copy.into()))
    }
}
