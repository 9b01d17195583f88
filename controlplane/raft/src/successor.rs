//! Who should lead next, when a leader may choose.

use std::time::Duration;

use crate::member::ServerId;

/// What a leader knows of another voter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: ServerId,
    /// The newest of our entries that it is known to have.
    pub(crate) matched: Option<u64>,
    /// How long ago it last answered; `None` = never.
    pub(crate) silent: Option<Duration>,
}

/// The voter that can take over soonest: of those that answered within `lately` the one with the
/// longest log; where none did, the longest log of all. A server that is down or far behind would
/// leave the cluster without a leader until its election fails.
pub(crate) fn successor(
    candidates: impl IntoIterator<Item = Candidate>,
    lately: Duration,
) -> Option<ServerId> {
    let rank = |candidate: &Candidate| {
        let answers = candidate.silent.is_some_and(|silent| silent <= lately);
        (answers, candidate.matched, std::cmp::Reverse(candidate.id))
    };
    candidates
        .into_iter()
        .max_by_key(rank)
        .map(|candidate| candidate.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATELY: Duration = Duration::from_millis(800);

    fn candidate(id: u64, matched: Option<u64>, silent_ms: Option<u64>) -> Candidate {
        Candidate {
            id: ServerId::from_u64(id),
            matched,
            silent: silent_ms.map(Duration::from_millis),
        }
    }

    fn chosen(candidates: &[Candidate]) -> Option<u64> {
        successor(candidates.iter().copied(), LATELY).map(ServerId::as_u64)
    }

    #[test]
    fn the_longest_log_wins_and_not_the_lowest_id() {
        let behind = candidate(1, Some(10), Some(50));
        let ahead = candidate(2, Some(90), Some(50));
        assert_eq!(chosen(&[behind, ahead]), Some(2));
    }

    #[test]
    fn who_does_not_answer_is_chosen_last() {
        let dead = candidate(1, Some(90), Some(5000));
        let alive = candidate(2, Some(80), Some(50));
        let never = candidate(3, None, None);
        assert_eq!(chosen(&[dead, alive, never]), Some(2));
        assert_eq!(chosen(&[dead, never]), Some(1));
    }

    #[test]
    fn a_tie_goes_to_the_lowest_id_and_nobody_to_nobody() {
        let one = candidate(1, Some(9), Some(50));
        let two = candidate(2, Some(9), Some(40));
        assert_eq!(chosen(&[two, one]), Some(1));
        assert_eq!(chosen(&[]), None);
    }
}
