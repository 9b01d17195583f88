//! The candidates that fit, so that the best one is found without looking at each.
//!
//! Within a cell (nodes that are alike to the spread blocks) and a number of score components,
//! order by their sum is order by their mean, whatever the cell's spread is. So there is a heap for
//! each cell and number, and the best of all is the best of their heads:
//!
//! ```text
//!   heads:  [cell 0, 1 part: 0.4] [cell 0, 2 parts: -0.1] [cell 1, 1 part: 0.5] ...
//!   heaps:   0.4 0.3 0.3 ..        -0.1 -0.2 ..            0.5 ..
//! ```

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::rank::{PARTS_MAX, Parts};

/// A candidate that fits, as good as it was when it was judged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Entry {
    /// The sum of its components but the spread, or the mean of all.
    pub(super) value: f64,
    pub(super) tie: u32,
    /// Which candidate.
    pub(super) offset: usize,
    /// How often it was judged before.
    pub(super) times: u32,
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let Self {
            value,
            tie,
            offset,
            times,
        } = self;
        value
            .total_cmp(&other.value)
            .then(tie.cmp(&other.tie))
            // Among full equals the first node, as if they were looked at one after the other.
            .then(other.offset.cmp(offset))
            .then(times.cmp(&other.times))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The best of one heap, among those of all: by its mean, the spread included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Top {
    by_mean: Entry,
    heap: usize,
    of_heap: Entry,
}

/// See the top of this file.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    /// The heap of a cell and a number of parts, once there was something to put into it.
    numbers: Vec<Option<usize>>,
    heaps: Vec<BinaryHeap<Entry>>,
    /// Of each heap; their entries are never stale.
    heads: Vec<Head>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    cell: usize,
    count: u8,
    entry: Option<Entry>,
}

impl Head {
    fn top(&self, heap: usize, spreads: &[f64]) -> Option<Top> {
        let of_heap = self.entry?;
        let parts = Parts {
            sum: of_heap.value,
            count: self.count,
        };
        let value = parts.mean(spreads.get(self.cell).copied().unwrap_or(0.0));
        Some(Top {
            by_mean: Entry { value, ..of_heap },
            heap,
            of_heap,
        })
    }
}

impl Heaps {
    /// A candidate of `cell` fits, with this score.
    pub(super) fn push(&mut self, cell: usize, count: u8, entry: Entry) {
        let number = number(cell, count);
        if self.numbers.len() <= number {
            self.numbers.resize(number + 1, None);
        }
        let Some(heap) = self.numbers.get_mut(number) else {
            return;
        };
        let heap = *heap.get_or_insert_with(|| {
            self.heaps.push(BinaryHeap::new());
            self.heads.push(Head {
                cell,
                count,
                entry: None,
            });
            self.heaps.len() - 1
        });
        if let (Some(entries), Some(head)) = (self.heaps.get_mut(heap), self.heads.get_mut(heap)) {
            entries.push(entry);
            head.entry = head.entry.max(Some(entry));
        }
    }

    /// An entry of `cell` with so many parts became stale.
    pub(super) fn outdated(&mut self, cell: usize, count: u8, is_stale: impl Fn(&Entry) -> bool) {
        let heap = self.numbers.get(number(cell, count)).copied().flatten();
        if let Some(heap) = heap {
            self.clean(heap, is_stale);
        }
    }

    /// Throws away what is stale at the top of a heap.
    fn clean(&mut self, heap: usize, is_stale: impl Fn(&Entry) -> bool) {
        if let (Some(entries), Some(head)) = (self.heaps.get_mut(heap), self.heads.get_mut(heap)) {
            while entries.peek().is_some_and(&is_stale) {
                entries.pop();
            }
            head.entry = entries.peek().copied();
        }
    }

    /// The best `most` candidates, the best first; `spreads` is the component of each cell.
    pub(super) fn best(
        &mut self,
        most: usize,
        spreads: &[f64],
        is_stale: impl Fn(&Entry) -> bool,
    ) -> Vec<usize> {
        let mut tops = BinaryHeap::from(self.best_heads(most, spreads));
        let mut best: Vec<Top> = Vec::with_capacity(most);
        while best.len() < most
            && let Some(top) = tops.pop()
        {
            if let Some(heap) = self.heaps.get_mut(top.heap) {
                heap.pop();
            }
            self.clean(top.heap, &is_stale);
            let next = self.heads.get(top.heap);
            tops.extend(next.and_then(|head| head.top(top.heap, spreads)));
            best.push(top);
        }
        for top in &best {
            if let (Some(entries), Some(head)) =
                (self.heaps.get_mut(top.heap), self.heads.get_mut(top.heap))
            {
                entries.push(top.of_heap);
                head.entry = head.entry.max(Some(top.of_heap));
            }
        }
        best.iter().map(|top| top.of_heap.offset).collect()
    }

    /// The best heads: no other heap has one of the best `most` candidates.
    fn best_heads(&self, most: usize, spreads: &[f64]) -> Vec<Top> {
        let mut best: Vec<Top> = Vec::with_capacity(most + 1);
        for (heap, head) in self.heads.iter().enumerate() {
            let Some(top) = head.top(heap, spreads) else {
                continue;
            };
            if best.len() < most || best.last().is_some_and(|last| top > *last) {
                let place = best.partition_point(|better| *better > top);
                best.insert(place, top);
                best.truncate(most);
            }
        }
        best
    }
}

fn number(cell: usize, count: u8) -> usize {
    cell * PARTS_MAX + usize::from(count).clamp(1, PARTS_MAX) - 1
}
