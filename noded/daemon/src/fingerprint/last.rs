//! The facts that this host told last, over a restart of its daemon: what only trembles is measured
//! anew by each of them, and would make the scheduler look at every job of the host again. A file
//! of its own beside the journal, since it may be lost: then just that happens.

use std::io::{self, Read};
use std::path::Path;

use parking_lot::Mutex;
use protocol_model::{Node, NodeId};

use crate::identity::write_durably;

const FILE: &str = "facts.json";
/// Facts are some ten kilobytes.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The facts that were kept in `directory`, where they are this node's; none where they cannot be
/// read, for whatever reason.
pub(crate) fn load(directory: &Path, id: NodeId) -> Option<Node> {
    let path = directory.join(FILE);
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(&path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the facts of the last run cannot be read");
            return None;
        }
    }
    match serde_json::from_slice::<Node>(&bytes) {
        Ok(facts) => Some(facts).filter(|facts| facts.id == id),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the facts of the last run cannot be parsed");
            None
        }
    }
}

/// Keeps facts in `directory`. Blocks, also while others are being kept.
pub(crate) fn save(directory: &Path, facts: &Node) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let bytes = serde_json::to_vec(facts).map_err(io::Error::other);
    let kept = bytes.and_then(|bytes| write_durably(directory, FILE, &bytes));
    if let Err(error) = kept {
        tracing::warn!(
            path = %directory.join(FILE).display(), %error,
            "the facts were not saved; after a restart of noded the jobs of this node are evaluated once more"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::set;

    #[test]
    fn facts_are_found_again_by_their_own_node_only() {
        let directory = tempfile::tempdir().unwrap();
        let id = NodeId::from_u128(1);
        assert_eq!(load(directory.path(), id), None);
        let mut node = Node::new(id, "a", "dc1");
        set(&mut node, "cpu.frequency", 2000);
        node.node_resources.disk.disk_mb = 7;
        save(directory.path(), &node);
        assert_eq!(load(directory.path(), id), Some(node));
        assert_eq!(load(directory.path(), NodeId::from_u128(2)), None);
    }

    #[test]
    fn a_damaged_file_is_as_none() {
        let directory = tempfile::tempdir().unwrap();
        for damaged in ["", "{", "[1]", "{\"ID\": 7}"] {
            std::fs::write(directory.path().join(FILE), damaged).unwrap();
            assert_eq!(
                load(directory.path(), NodeId::from_u128(1)),
                None,
                "{damaged}"
            );
        }
    }
}
