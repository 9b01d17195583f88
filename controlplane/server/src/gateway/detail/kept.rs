//! What is kept, and of whom: a node's whole detail is found without a look at anybody else's,
//! since thousands of sessions may end at once.

use std::collections::{BTreeMap, BTreeSet};

use protocol_model::{AllocId, NodeId};

use super::{AllocEvents, Detail, Told};

/// Details by allocation, and the allocations of each node.
#[derive(Debug, Default)]
pub(super) struct Kept {
    details: BTreeMap<AllocId, Detail>,
    by_node: BTreeMap<NodeId, BTreeSet<AllocId>>,
}

impl Kept {
    pub(super) fn get(&self, alloc: AllocId) -> Option<&Detail> {
        self.details.get(&alloc)
    }

    /// Replaces what is kept of an allocation's tasks; new allocations only while fewer than `most`
    /// are kept.
    pub(super) fn keep(&mut self, told: Told, events: AllocEvents, revision: u64, most: usize) {
        let Told { node, epoch, via } = told;
        let before = self.details.get(&events.alloc).map(|kept| kept.node);
        match before {
            None if self.details.len() >= most => return,
            Some(before) if before != node => self.leave(before, events.alloc),
            Some(_) | None => {}
        }
        self.by_node.entry(node).or_default().insert(events.alloc);
        let kept = self.details.entry(events.alloc).or_insert_with(|| Detail {
            node,
            epoch,
            via,
            revision,
            events: BTreeMap::new(),
        });
        (kept.node, kept.epoch, kept.via, kept.revision) = (node, epoch, via, revision);
        kept.events.extend(events.tasks);
    }

    /// Forgets all of a node.
    pub(super) fn forget(&mut self, node: NodeId) {
        for alloc in self.by_node.remove(&node).unwrap_or_default() {
            self.details.remove(&alloc);
        }
    }

    /// Forgets an allocation, where it is that node's.
    pub(super) fn forget_alloc(&mut self, node: NodeId, alloc: AllocId) {
        if self
            .details
            .get(&alloc)
            .is_some_and(|kept| kept.node == node)
        {
            self.details.remove(&alloc);
            self.leave(node, alloc);
        }
    }

    fn leave(&mut self, node: NodeId, alloc: AllocId) {
        if let Some(allocs) = self.by_node.get_mut(&node) {
            allocs.remove(&alloc);
            if allocs.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::SessionEpoch;
    use proptest::prelude::*;
    use tokio::time::Instant;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Keep { node: u8, alloc: u8 },
        Forget { node: u8 },
        ForgetAlloc { node: u8, alloc: u8 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let (node, alloc) = (0_u8..4, 0_u8..8);
        prop_oneof![
            4 => (node.clone(), alloc.clone()).prop_map(|(node, alloc)| Step::Keep { node, alloc }),
            1 => node.clone().prop_map(|node| Step::Forget { node }),
            1 => (node, alloc).prop_map(|(node, alloc)| Step::ForgetAlloc { node, alloc }),
        ]
    }

    proptest! {
        #[test]
        fn it_keeps_what_a_list_would(steps in prop::collection::vec(step(), 0..60)) {
            const MOST: usize = 5;
            let via = Instant::now();
            let node = |number: u8| NodeId::from_u128(u128::from(number));
            let id = |number: u8| AllocId::from_u128(u128::from(number));
            let mut kept = Kept::default();
            let mut list: BTreeMap<u8, u8> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Keep { node: of, alloc } => {
                        let epoch = SessionEpoch(1);
                        let told = Told { node: node(of), epoch, via };
                        let events = AllocEvents {
                            alloc: id(alloc),
                            revision: 1,
                            tasks: BTreeMap::new(),
                        };
                        kept.keep(told, events, 1, MOST);
                        if list.contains_key(&alloc) || list.len() < MOST {
                            list.insert(alloc, of);
                        }
                    }
                    Step::Forget { node: of } => {
                        kept.forget(node(of));
                        list.retain(|_, owner| *owner != of);
                    }
                    Step::ForgetAlloc { node: of, alloc } => {
                        kept.forget_alloc(node(of), id(alloc));
                        if list.get(&alloc) == Some(&of) {
                            list.remove(&alloc);
                        }
                    }
                }
                let owners = |alloc| kept.get(id(alloc)).map(|detail| detail.node);
                for alloc in 0..8 {
                    prop_assert_eq!(owners(alloc), list.get(&alloc).map(|of| node(*of)));
                }
                // Nothing is left of whom nothing is kept.
                let indexed: usize = kept.by_node.values().map(BTreeSet::len).sum();
                prop_assert_eq!(indexed, list.len());
                prop_assert!(kept.by_node.values().all(|allocs| !allocs.is_empty()));
            }
        }
    }
}
