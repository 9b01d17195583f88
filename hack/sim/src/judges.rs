//! What several simulators judge alike, whoever shows them what happens.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::Duration;

use noded_core::RunKey;
use protocol_model::AllocId;

use crate::schedule::jobs::{KILL_TIMEOUT, LEASE};

/// What was said before a silence and was still on its way, and what lies between two looks.
const MARGIN: Duration = Duration::from_secs(2);

/// Groups that stop themselves when their node is not heard: at most one instance of each number
/// lives at once, and none where nobody could say for long that its node was heard.
#[derive(Debug, Default)]
pub struct Leased {
    /// The names of what was ever placed of such groups: a host may have it for longer than the
    /// state.
    names: BTreeMap<AllocId, String>,
}

impl Leased {
    /// An allocation of such a group was placed.
    pub fn placed(&mut self, alloc: AllocId, name: &str) {
        self.names.entry(alloc).or_insert_with(|| name.to_owned());
    }

    /// A run starts on a host while these live, on any.
    ///
    /// # Errors
    /// Where one of them is of an allocation with the same number.
    pub fn starts<R: Borrow<RunKey>>(
        &self,
        host: u32,
        run: &RunKey,
        mut live: impl Iterator<Item = (u32, R)>,
    ) -> Result<(), String> {
        let Some(name) = self.names.get(&run.alloc) else {
            return Ok(());
        };
        let is_twin = |it: AllocId| it != run.alloc && self.names.get(&it) == Some(name);
        match live.find(|(_, other)| is_twin(other.borrow().alloc)) {
            None => Ok(()),
            Some((other, twin)) => Err(format!(
                "n{host} starts {run} while {} lives on n{other}, and both are {name}",
                twin.borrow()
            )),
        }
    }

    /// These live on a host, and nobody could confirm for so long that it was heard.
    ///
    /// # Errors
    /// Where one of them should have ended by then.
    pub fn outlived<R: Borrow<RunKey>>(
        &self,
        host: u32,
        unconfirmed: Duration,
        mut live: impl Iterator<Item = R>,
    ) -> Result<(), String> {
        if unconfirmed <= LEASE + KILL_TIMEOUT + MARGIN {
            return Ok(());
        }
        match live.find(|run| self.names.contains_key(&run.borrow().alloc)) {
            None => Ok(()),
            Some(run) => Err(format!(
                "nobody can confirm n{host} for {} s, and it runs {}",
                unconfirmed.as_secs(),
                run.borrow()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use noded_core::RunEpoch;

    use super::*;

    fn run_of(alloc: u128) -> RunKey {
        RunKey::new(AllocId::from_u128(alloc), "web", RunEpoch(1))
    }

    fn two_of_one_number() -> Leased {
        let mut judge = Leased::default();
        judge.placed(AllocId::from_u128(1), "job.g[0]");
        judge.placed(AllocId::from_u128(2), "job.g[0]");
        judge.placed(AllocId::from_u128(3), "job.g[1]");
        judge
    }

    #[test]
    fn two_of_one_number_may_not_live_at_once() {
        let judge = two_of_one_number();
        let beside = |live: u128| judge.starts(0, &run_of(2), [(1, run_of(live))].into_iter());
        assert!(beside(1).is_err());
        assert!(beside(2).is_ok() && beside(3).is_ok() && beside(9).is_ok());
    }

    #[test]
    fn what_nobody_confirms_may_live_for_its_lease_and_what_needs_none_for_ever() {
        let judge = two_of_one_number();
        let after = |seconds, live: u128| {
            judge.outlived(0, Duration::from_secs(seconds), [run_of(live)].iter())
        };
        assert_eq!(after(10, 1), Ok(()));
        assert!(after(11, 1).is_err());
        assert_eq!(after(100, 9), Ok(()));
    }
}
