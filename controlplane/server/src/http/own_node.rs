//! The node that runs as a child of this server.

use protocol_model::NodeId;

use super::Api;
use crate::dev;

/// What is known of the server's own node.
pub(super) enum OwnNode {
    /// The server has none.
    Absent,
    /// It has not made its identity yet.
    NotJoined,
    Known(NodeId),
    /// Its identity cannot be read; the file and the reason.
    Unreadable(String),
}

impl Api {
    /// Reads the identity that the node wrote.
    pub(super) fn own_node(&self) -> OwnNode {
        let Some(file) = &self.config.own_node else {
            return OwnNode::Absent;
        };
        match dev::read_node_identity(file) {
            Ok(None) => OwnNode::NotJoined,
            Ok(Some(node)) => OwnNode::Known(node),
            Err(error) => {
                let file = file.display();
                OwnNode::Unreadable(format!("cannot read the node's identity {file}: {error}"))
            }
        }
    }
}
