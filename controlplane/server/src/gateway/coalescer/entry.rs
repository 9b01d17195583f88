//! What of all that waits becomes one entry of the log, and in which order. Pure.

use std::collections::BTreeMap;

use controlplane_state::command::NodeBatch;
use protocol_model::NodeId;
use protocol_wire::report::AllocReport;

/// Batches in one entry.
pub(super) const BATCHES_MAX: usize = 1024;
/// Reports in one entry: an entry must stay small enough to be applied without a pause for readers.
const REPORTS_MAX: usize = 8192;
/// Bytes of batches in one entry, as they came: well below what the log takes for one command.
const BYTES_MAX: usize = 1024 * 1024;

/// What a node has of an entry in one turn, in bytes: some hundred reports.
const QUANTUM_BYTES: usize = 16 * 1024;

/// Batches that stay together: one of a node, or what another server has merged already.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) source: Source,
    pub(super) batches: Vec<NodeBatch>,
    /// How long they were on the wire.
    pub(super) bytes: usize,
}

/// Whose a group is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A node's, in a session here.
    Node(NodeId),
    /// Another server's, which has few on their way at a time.
    Server,
}

impl Group {
    /// Whether the end of an allocation is in it: what a rescheduling, a waiting client or the next
    /// batch of a job waits for.
    pub(super) fn has_end(&self) -> bool {
        let mut reports = self.batches.iter().flat_map(|batch| &batch.reports);
        reports.any(AllocReport::is_terminal)
    }

    fn reports(&self) -> usize {
        self.batches.iter().map(|batch| batch.reports.len()).sum()
    }
}

/// Orders the groups by turns: in each of them a node has its next [`QUANTUM_BYTES`], whatever it
/// sends. One that sends much waits behind itself, not the others behind it; and its first batch
/// waits for nobody's second turn. Other servers' groups have waited there already.
pub(super) fn in_turns<T>(gathered: Vec<T>, group: impl Fn(&T) -> &Group) -> Vec<T> {
    let mut before: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut ordered: Vec<(usize, T)> = gathered
        .into_iter()
        .map(|one| {
            let Group { source, bytes, .. } = group(&one);
            let turn = match source {
                Source::Server => 0,
                Source::Node(node) => {
                    let before = before.entry(*node).or_default();
                    let turn = before.div_ceil(QUANTUM_BYTES);
                    *before += bytes;
                    turn
                }
            };
            (turn, one)
        })
        .collect();
    ordered.sort_by_key(|(turn, _)| *turn);
    ordered.into_iter().map(|(_, one)| one).collect()
}

/// How many of the gathered groups make one entry: at least one.
pub(super) fn fitting<'a>(gathered: impl ExactSizeIterator<Item = &'a Group>) -> usize {
    let (mut batches, mut reports, mut bytes) = (0, 0, 0);
    let count = gathered.len();
    let fitting = gathered.take_while(|group| {
        batches += group.batches.len();
        reports += group.reports();
        bytes += group.bytes;
        batches <= BATCHES_MAX && reports <= REPORTS_MAX && bytes <= BYTES_MAX
    });
    fitting.count().clamp(1, count.max(1))
}

#[cfg(test)]
mod tests {
    use controlplane_state::SessionEpoch;
    use protocol_wire::v1::UpdateClass;

    use super::*;

    fn batch(node: u128, seq: u64) -> NodeBatch {
        NodeBatch {
            node: NodeId::from_u128(node),
            epoch: SessionEpoch(1),
            class: UpdateClass::Urgent,
            seq,
            reports: Vec::new(),
        }
    }

    fn group(node: u128, seq: u64, bytes: usize) -> Group {
        Group {
            source: Source::Node(NodeId::from_u128(node)),
            batches: vec![batch(node, seq)],
            bytes,
        }
    }

    fn merged(batches: u64) -> Group {
        Group {
            source: Source::Server,
            batches: (0..batches).map(|number| batch(9, number)).collect(),
            bytes: 1,
        }
    }

    #[test]
    fn an_entry_is_bounded_in_bytes() {
        // What nodes send at most, of as many nodes as fill the log's largest command.
        let gathered: Vec<Group> = (0..17).map(|node| group(node, 1, 256 * 1024)).collect();
        assert_eq!(fitting(gathered.iter()), 4);
        assert_eq!(fitting([group(1, 1, 2 * BYTES_MAX)].iter()), 1, "alone");
    }

    #[test]
    fn an_entry_is_bounded_in_batches() {
        let gathered = [merged(1000), merged(24), merged(1)];
        assert_eq!(fitting(gathered.iter()), 2);
    }

    fn order_of(gathered: Vec<Group>) -> Vec<(u128, u64)> {
        let ordered = in_turns(gathered, |group| group);
        let first = ordered.iter().map(|group| &group.batches[0]);
        first.map(|it| (it.node.0.as_u128(), it.seq)).collect()
    }

    #[test]
    fn a_node_with_many_batches_waits_behind_itself() {
        let gathered = vec![
            group(1, 1, 1),
            group(1, 2, QUANTUM_BYTES),
            group(1, 3, 1),
            group(2, 1, 1),
            merged(1),
            group(3, 1, 1),
            group(2, 2, 1),
            merged(1),
        ];
        // Other servers' (9) have waited there already.
        let first = [(1, 1), (2, 1), (9, 0), (3, 1), (9, 0)];
        let wanted = [&first[..], &[(1, 2), (2, 2)], &[(1, 3)]].concat();
        assert_eq!(order_of(gathered), wanted);
    }

    #[test]
    fn turns_are_counted_in_bytes() {
        let gathered = vec![
            group(1, 1, 4 * QUANTUM_BYTES),
            group(1, 2, 1),
            group(2, 1, QUANTUM_BYTES),
            group(2, 2, QUANTUM_BYTES),
            group(2, 3, QUANTUM_BYTES),
        ];
        let wanted = [(1, 1), (2, 1), (2, 2), (2, 3), (1, 2)];
        assert_eq!(order_of(gathered), wanted);
    }
}
