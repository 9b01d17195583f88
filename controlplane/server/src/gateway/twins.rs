//! Two daemons with one identity: a copied `data_dir`. The Hello of each ends the session of the
//! other, without end, and neither of them can tell why.
//!
//! ```text
//!   daemon A   Hello --> 9                   Hello (names 9) --> 12
//!   daemon B                 Hello --> 11                             Hello (names 11) --> 13
//!                                            ^ 11 is newest, and A never had it
//! ```
//!
//! A daemon that goes on names the newest session, which is its own, or repeats the nonce of the
//! Hello that made it. One that does neither has seen another daemon take its place.

use std::collections::BTreeMap;
use std::time::Duration;

use controlplane_state::SessionEpoch;
use controlplane_state::command::{DaemonLife, NodeHello};
use protocol_model::NodeId;
use tokio::time::Instant;

/// Such Hellos within [`WINDOW`] that make it certain. One alone may have been long on its way.
const RIVALS_MIN: u32 = 2;
const WINDOW: Duration = Duration::from_secs(300);
/// Until the same node is named in the log again.
const NAMED_AGAIN: Duration = Duration::from_secs(3600);
/// Nodes that are remembered. When there are more, the one that began first is forgotten.
const NODES_MAX: usize = 1024;

/// Whether `hello` comes from a daemon whose session another daemon has replaced. `epoch` and
/// `nonce` are of the node's newest session.
pub(super) fn is_rival(epoch: SessionEpoch, nonce: &[u8; 16], hello: &NodeHello) -> bool {
    hello.daemon == DaemonLife::Continued
        && hello.last_epoch != SessionEpoch::NONE
        && hello.last_epoch < epoch
        && hello.nonce != *nonce
}

/// The nodes of which that was seen.
#[derive(Debug, Default)]
pub(super) struct Twins {
    nodes: BTreeMap<NodeId, Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    since: Instant,
    count: u32,
    named: Option<Instant>,
}

impl Twins {
    /// Notes that a rival's Hello was welcomed; whether the node is to be named in the log now.
    pub(super) fn on_rival(&mut self, node: NodeId, now: Instant) -> bool {
        let seen = self.nodes.entry(node).or_insert(Seen {
            since: now,
            count: 0,
            named: None,
        });
        if now.duration_since(seen.since) >= WINDOW {
            (seen.since, seen.count) = (now, 0);
        }
        seen.count = seen.count.saturating_add(1);
        let is_due = seen
            .named
            .is_none_or(|named| now.duration_since(named) >= NAMED_AGAIN);
        let names = seen.count >= RIVALS_MIN && is_due;
        if names {
            seen.named = Some(now);
        }
        if self.nodes.len() > NODES_MAX {
            let oldest = self.nodes.iter().min_by_key(|(_, seen)| seen.since);
            if let Some(oldest) = oldest.map(|(node, _)| *node) {
                self.nodes.remove(&oldest);
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::Digest;
    use controlplane_state::command::JoinVerdict;

    use super::*;

    fn hello(daemon: DaemonLife, last_epoch: u64, nonce: u8) -> NodeHello {
        NodeHello {
            node: NodeId::from_u128(1),
            secret_hash: Digest([0; 32]),
            nonce: [nonce; 16],
            last_epoch: SessionEpoch(last_epoch),
            boot_id: [0; 16],
            daemon,
            facts: None,
            join: JoinVerdict::Denied,
        }
    }

    #[test]
    fn only_a_daemon_that_was_replaced_by_another_is_a_rival() {
        use DaemonLife::{Continued, Restarted};
        for (what, hello, expected) in [
            ("replaced", hello(Continued, 7, 1), true),
            ("it has the newest session", hello(Continued, 9, 1), false),
            ("Welcome was lost", hello(Continued, 7, 5), false),
            ("killed before Welcome came", hello(Restarted, 7, 1), false),
            ("unregistered before", hello(Continued, 0, 1), false),
            ("the servers were restored", hello(Continued, 12, 1), false),
        ] {
            assert_eq!(
                is_rival(SessionEpoch(9), &[5; 16], &hello),
                expected,
                "{what}"
            );
        }
    }

    #[test]
    fn a_node_is_named_at_the_second_rival_and_then_rarely() {
        let (mut twins, start) = (Twins::default(), Instant::now());
        let (node, other) = (NodeId::from_u128(1), NodeId::from_u128(2));
        let mut at = |node, seconds| twins.on_rival(node, start + Duration::from_secs(seconds));
        assert!(!at(node, 0));
        assert!(!at(other, 0));
        assert!(at(node, 1));
        assert!(!at(node, 2));
        assert!(!at(other, 301), "its first is forgotten");
        assert!(!at(node, 3599));
        assert!(at(node, 3602));
        for number in 0..2 * NODES_MAX as u128 {
            twins.on_rival(NodeId::from_u128(number), start);
        }
        assert_eq!(twins.nodes.len(), NODES_MAX);
    }
}
