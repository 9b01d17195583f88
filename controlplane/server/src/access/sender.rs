//! The sender of a request: its refused credentials are charged to it.

use std::net::IpAddr;
use std::sync::Arc;

use protocol_access::budget::Key;
use protocol_model::AllocId;

/// The address that a request comes from, and the task for which a node forwards it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sender {
    pub(crate) address: IpAddr,
    /// A task that the state has placed on that node.
    pub(crate) task: Option<(AllocId, Arc<str>)>,
}

impl Sender {
    /// The account of its refused credentials. All tasks of a node have one address, so each has an
    /// account of its own: a flood of one task takes no failures from another one.
    pub(super) fn key(&self) -> Key {
        match &self.task {
            Some((alloc, task)) => Key::Task {
                alloc: *alloc,
                task: Arc::clone(task),
            },
            None => Key::address(self.address),
        }
    }
}

impl From<IpAddr> for Sender {
    fn from(address: IpAddr) -> Self {
        Self {
            address,
            task: None,
        }
    }
}
