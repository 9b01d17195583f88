//! Placements that fit nowhere and may evict less important allocations: the same field once more,
//! in which a node counts as it is without its victims.

use controlplane_state::Usage;
use protocol_model::{AllocId, AllocMetric, NodeId};

use super::field::{Field, Verdict};
use super::scope::{Candidate, candidates};
use super::{Past, Placement, Placer, Tools};
use crate::preempt::{self, Victim};
use crate::reconcile::Wanted;

impl<'a> Placer<'a> {
    /// Finds the best node on which `wanted` fits once its victims are gone, and evicts them.
    /// `None` where there is none, or where jobs of this kind do not preempt.
    pub(super) fn place_evicting(
        &mut self,
        wanted: &Wanted,
        past: &Past,
        tools: &mut Tools<'_>,
    ) -> Option<Placement> {
        if !self.preempts {
            return None;
        }
        let (best, metrics) = if wanted.node.is_some() {
            let mut field = self.evicting_field(wanted.node, past, tools);
            field.best(|cell| self.spreads.score(cell))
        } else {
            let mut field = self.evicting_up_to_date(past, tools);
            let answer = field.best(|cell| self.spreads.score(cell));
            self.evicting = Some(field);
            self.touched_evicting.extend(&past.nodes);
            answer
        };
        let candidate = best?;
        let victims = self.victims(candidate, tools)?;
        for victim in &victims {
            if tools.overlay.evict(self.snapshot, victim) {
                self.evicting = None;
            }
        }
        let ids = victims.iter().map(|victim| victim.alloc.id).collect();
        self.give(candidate, metrics, ids, tools)
    }

    fn evicting_up_to_date(&mut self, past: &Past, tools: &mut Tools<'_>) -> Field<'a> {
        let touched = std::mem::take(&mut self.touched_evicting);
        let Some(mut field) = self.evicting.take() else {
            return self.evicting_field(None, past, tools);
        };
        for node in touched.union(&past.nodes) {
            field.judge_again(*node, |candidate| {
                self.judge_evicting(candidate, past, tools)
            });
        }
        field
    }

    fn evicting_field(
        &mut self,
        only: Option<NodeId>,
        past: &Past,
        tools: &mut Tools<'_>,
    ) -> Field<'a> {
        let mut counts = AllocMetric::default();
        let candidates = candidates(self.snapshot, self.job, only, &mut counts);
        Field::new(candidates, counts, |candidate| {
            let cell = self.spreads.cell_of(&candidate.1.node);
            (cell, self.judge_evicting(candidate, past, tools))
        })
    }

    fn judge_evicting(
        &mut self,
        candidate: Candidate<'a>,
        past: &Past,
        tools: &mut Tools<'_>,
    ) -> Verdict {
        let (row, record) = candidate;
        if let Some(filtered) = self.filter(&record.node, past, tools) {
            return filtered;
        }
        let mut used = tools.overlay.used(row).clone();
        let Some(victims) = self.victims(candidate, tools) else {
            let fits = self.with_ask(&record.node, &row.capacity, used);
            let dimension = fits.err().unwrap_or_default();
            return Verdict::Exhausted(dimension.into_owned());
        };
        for victim in &victims {
            used.subtract(&victim.usage);
        }
        match self.with_ask(&record.node, &row.capacity, used) {
            Ok(used) => {
                let component = preempt::component(&victims);
                self.fitting(candidate, &used, Some(component), past, tools)
            }
            Err(dimension) => Verdict::Exhausted(dimension.into_owned()),
        }
    }

    /// The allocations that have to leave a node for one more of the group.
    fn victims(&self, (row, record): Candidate<'a>, tools: &Tools<'_>) -> Option<Vec<Victim>> {
        let node = &record.node;
        let used = tools.overlay.used(row);
        let mut ask = self.ask.amounts(node);
        ask.claims = self.ask.static_ports(node).into();
        let fits = |victims: &[Victim]| {
            let mut left = used.clone();
            for victim in victims {
                left.subtract(&victim.usage);
            }
            self.with_ask(node, &row.capacity, left).is_ok()
        };
        let evicted = tools.overlay.evicted();
        let eligible = preempt::eligible(self.snapshot, self.job, row.node, evicted);
        let holds = |victim: &Victim| {
            let fixed = &row.capacity.fixed;
            fixed.collide(&victim.usage.claims, &ask.claims)
        };
        preempt::choose(eligible, &ask, holds, fits)
    }

    /// The allocations that this plan evicts from the candidate's node and whose end one with
    /// `resources` has to await, since it needs their room; `used` counts none of them.
    pub(super) fn displaced(
        &self,
        (row, record): Candidate<'a>,
        used: &Usage,
        tools: &Tools<'_>,
    ) -> Vec<AllocId> {
        let mut while_they_stop = used.clone();
        let mut ids = Vec::new();
        for (id, usage) in tools.overlay.evicted().from(row.node) {
            while_they_stop.add(usage);
            ids.push(id);
        }
        if ids.is_empty()
            || self
                .with_ask(&record.node, &row.capacity, while_they_stop)
                .is_ok()
        {
            return Vec::new();
        }
        ids
    }
}
