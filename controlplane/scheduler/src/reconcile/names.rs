//! Names of allocations: `job.group[index]`, each index at most once among those that take part in
//! the count.

use std::collections::BTreeSet;

use protocol_model::Allocation;

/// Hands out the lowest free indexes of a group.
#[derive(Debug)]
pub(super) struct Names<'a> {
    job_id: &'a str,
    group: &'a str,
    taken: BTreeSet<u32>,
    next: u32,
}

impl<'a> Names<'a> {
    pub(super) fn new(job_id: &'a str, group: &'a str, taken: BTreeSet<u32>) -> Self {
        Self {
            job_id,
            group,
            taken,
            next: 0,
        }
    }

    /// Whether `number` was free; it is taken then.
    pub(super) fn take(&mut self, number: u32) -> bool {
        self.taken.insert(number)
    }

    /// The next number below `end`, which is taken then.
    pub(super) fn next_below(&mut self, end: u32) -> Option<u32> {
        while self.taken.contains(&self.next) {
            self.next += 1;
        }
        (self.next < end).then(|| {
            self.taken.insert(self.next);
            self.next
        })
    }

    /// The name with this number.
    pub(super) fn name(&self, number: u32) -> String {
        Allocation::name_of(self.job_id, self.group, number)
    }
}
