//! Where servers are now. The consensus library keeps the address that a server had when the
//! stream to it was made, and a server may move while it is a member.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::member::Membership;

/// The members' addresses as of the newest membership. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses {
    known: Arc<RwLock<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// The membership that was learned last, by its index.
    index: u64,
    by_id: BTreeMap<u64, String>,
}

impl Addresses {
    /// Takes the addresses of a membership over, unless it is known already.
    pub(crate) fn learn(&self, membership: &Membership) {
        let mut known = self.known.write();
        if known.index == membership.index && !known.by_id.is_empty() {
            return;
        }
        known.index = membership.index;
        let all = membership.voters.iter().chain(&membership.learners);
        known.by_id = all
            .map(|(id, info)| (id.as_u64(), info.address.clone()))
            .collect();
    }

    /// The newest address of a server, or `otherwise` if it is in no membership yet.
    pub(crate) fn find(&self, id: u64, otherwise: &str) -> String {
        let known = self.known.read();
        known
            .by_id
            .get(&id)
            .map_or(otherwise, String::as_str)
            .to_owned()
    }
}
