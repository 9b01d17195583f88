//! Whether the cluster goes on without this server. Whoever is removed while it is away never
//! learns of it from the log: what it has still says that it is a member, and nobody sends it more.

use std::time::Duration;

use super::Formation;
use crate::network::call::{CallKind, ReadIndexAnswer};

const CALL_LIMIT: Duration = Duration::from_secs(3);

impl Formation {
    /// Asks the others for their leader, and that one whether this server is a member. `false`
    /// where nobody says so, and for a server that is on its way into a cluster.
    pub(crate) async fn is_left_behind(&self, known: &[String]) -> bool {
        let mut addresses = known.to_vec();
        {
            let status = self.inner.status.borrow();
            if !status.is_member() {
                return false;
            }
            let all = status.membership.voters.values();
            let all = all.chain(status.membership.learners.values());
            addresses.extend(all.map(|info| info.address.clone()));
        }
        let peers = self.introduce(&addresses).await.peers;
        let leads = |info| peers.values().find(|peer| Some(&peer.info) == info);
        let named = peers.values().filter(|peer| peer.member);
        let Some(leader) = named
            .filter_map(|peer| leads(peer.leader.as_ref()))
            .find(|leader| leader.leader.as_ref() == Some(&leader.info))
        else {
            return false;
        };
        let (address, id) = (&leader.info.address, leader.id.as_u64());
        let asked = self
            .inner
            .caller
            .call(address, id, CallKind::ReadIndex, (), CALL_LIMIT)
            .await;
        matches!(asked, Ok(ReadIndexAnswer::NotMember))
    }
}
