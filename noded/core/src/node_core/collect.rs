//! Which ended allocations are destroyed to make room. Only those whose end the control plane has
//! recorded: what a node alone knows must not be lost with its directory.

use protocol_model::{AllocId, UnixNanos};

use super::NodeCore;
use crate::alloc_runner::{AllocRunner, Removal};
use crate::time::Now;
use crate::update_batcher::priority::AckedState;

/// What a full disk leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskRelief {
    /// This allocation is being destroyed for it.
    Begun(AllocId),
    /// One is being destroyed already: look again when it is gone.
    UnderWay,
    /// Everything that is here is needed, or its end is not recorded yet.
    NothingToRemove,
}

/// Why an allocation is not destroyed although an operator asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotCollected {
    /// It is not here, or is gone already.
    #[error("Unknown allocation \"{0}\" on this node")]
    Unknown(AllocId),
    /// It has to be stopped first.
    #[error("allocation \"{0}\" has not ended: only what has ended is collected")]
    NotEnded(AllocId),
    /// The control plane would not learn of its end any more. That passes by itself.
    #[error("the end of allocation \"{0}\" is not recorded by the control plane yet; try again")]
    NotRecorded(AllocId),
}

impl NodeCore {
    /// The disk is fuller than the operator allows: destroys the oldest allocation whose end the
    /// control plane has recorded, one at a time, so that no more goes than must.
    pub fn on_disk_full(&mut self, now: Now) -> DiskRelief {
        let under_way = |runner: &AllocRunner| runner.removal() != Removal::Kept;
        let relief = if self.runners.values().any(under_way) {
            DiskRelief::UnderWay
        } else if let Some((_, alloc)) = self.collectable().into_iter().next() {
            self.remove_alloc(alloc, now);
            DiskRelief::Begun(alloc)
        } else {
            DiskRelief::NothingToRemove
        };
        self.flush(now);
        relief
    }

    /// Destroys every allocation whose end the control plane has recorded (an operator's request).
    pub fn collect_garbage(&mut self, now: Now) {
        self.collect_down_to(0, now);
        self.flush(now);
    }

    /// Destroys one allocation whose end the control plane has recorded (an operator's request).
    /// One that is being destroyed already is fine.
    ///
    /// # Errors
    /// Where it has not ended, or only this node knows that it has.
    pub fn collect_alloc(&mut self, alloc: AllocId, now: Now) -> Result<(), NotCollected> {
        let runner = self.runners.get(&alloc);
        let runner = runner.ok_or(NotCollected::Unknown(alloc))?;
        if runner.removal() != Removal::Kept {
            return Ok(());
        }
        if !self.ended.contains(&alloc) {
            return Err(NotCollected::NotEnded(alloc));
        }
        if !self.is_recorded(runner) {
            return Err(NotCollected::NotRecorded(alloc));
        }
        self.remove_alloc(alloc, now);
        self.flush(now);
        Ok(())
    }

    /// Destroys the oldest allocations whose end is recorded, beyond `keep` of them.
    pub(super) fn collect_down_to(&mut self, keep: usize, now: Now) {
        if self.ended.len() <= keep {
            return;
        }
        let ended = self.collectable();
        let surplus = ended.len().saturating_sub(keep);
        for (_, alloc) in ended.into_iter().take(surplus) {
            self.remove_alloc(alloc, now);
        }
    }

    /// Allocations whose end is recorded, the oldest first.
    fn collectable(&self) -> Vec<(Option<UnixNanos>, AllocId)> {
        let free =
            |runner: &&AllocRunner| runner.removal() == Removal::Kept && self.is_recorded(runner);
        let runners = self
            .ended
            .iter()
            .filter_map(|alloc| self.runners.get(alloc));
        let mut ended: Vec<(Option<UnixNanos>, AllocId)> = runners
            .filter(free)
            .map(|it| (it.finished_at(), it.id()))
            .collect();
        ended.sort_unstable();
        ended
    }

    /// Whether the control plane has recorded that it ended, and how each of its tasks did.
    fn is_recorded(&self, runner: &AllocRunner) -> bool {
        let acked = self.batcher.acknowledged(runner.id());
        let is_last_word = |state: &AckedState| state.says(&runner.report());
        acked.is_some_and(|state| state.client_status.is_terminal() && is_last_word(state))
    }
}
