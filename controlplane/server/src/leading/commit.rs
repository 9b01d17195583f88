//! Committing a plan: in pieces where it is large, and until it is known what became of it.
//!
//! ```text
//!   log:  piece | what nodes report ... | piece | what nodes report ... | piece
//! ```
//!
//! What a large plan places is started by a thousand nodes at once, which then report. The end of a
//! task is among those reports, and is not to wait for all that is still to be placed: the longer
//! reports wait already, the longer does the next piece.

use std::time::Duration;

use controlplane_leader::pieces;
use controlplane_state::Command;
use controlplane_state::command::PlanApply;
use tokio::time::{Instant, sleep};

use crate::cluster::{ChangeError, Changed, Cluster, LeadingError};

/// Placements and changes in one entry: some 6 KiB of log, a millisecond of each server's time.
pub(super) const PIECE_ITEMS_MAX: usize = 100;
/// How long the log is everybody else's after a piece, as a multiple of how long that one took...
const REST_PER_PIECE: u32 = 2;
/// ...and at most: ten thousand placements take two seconds longer by it, however far apart the
/// servers are.
const REST_MAX: Duration = Duration::from_millis(20);
/// The same while nodes report, as a multiple of how long reports wait...
const REST_PER_WAIT: u32 = 4;
/// ...and at most: ten thousand placements take five seconds longer where servers and nodes are at
/// the end of their strength, and none where they keep up.
const REST_BUSY_MAX: Duration = Duration::from_millis(50);

/// Between two attempts at finding out what became of a plan.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// Whether a piece may be halved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Halves {
    /// It may.
    Allowed,
    /// It must not: all or nothing needs one entry.
    Forbidden,
}

/// Commits the pieces of a plan; one that is too large for the log is halved where it may be. What
/// was committed before an error stays: the evaluation is open, and its next decision finds it.
/// Where the outcome is not known the state shows it by then.
pub(super) async fn commit(
    cluster: &Cluster,
    term: u64,
    mut waiting: Vec<PlanApply>,
    halves: Halves,
) -> Result<(), LeadingError> {
    waiting.reverse();
    while let Some(piece) = waiting.pop() {
        let count = pieces::items(&piece);
        let splits = count > 1 && halves == Halves::Allowed;
        // Kept only where it may be needed again.
        let again = splits.then(|| piece.clone());
        let command = Command::PlanApply(Box::new(piece));
        let begun = Instant::now();
        match cluster.change_as_leader(command, term).await {
            Ok(_) if waiting.is_empty() => {}
            Ok(_) => {
                let now = Instant::now();
                sleep(rest(now - begun, cluster.updates().mean(now))).await;
            }
            Err(LeadingError::Change(ChangeError::TooLarge(reason))) => {
                let Some(piece) = again else {
                    return Err(ChangeError::TooLarge(reason).into());
                };
                let halves = pieces::split(piece, count / 2);
                if halves.len() < 2 {
                    return Err(ChangeError::TooLarge(reason).into());
                }
                waiting.extend(halves.into_iter().rev());
            }
            Err(LeadingError::Change(ChangeError::OutcomeUnknown)) => {
                settled(|| barrier(cluster, term)).await?;
                return Err(ChangeError::OutcomeUnknown.into());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How long the log is left to others after a piece that took so long, while reports wait so long.
fn rest(piece: Duration, reports: Duration) -> Duration {
    let own = piece.saturating_mul(REST_PER_PIECE).min(REST_MAX);
    let of_others = reports.saturating_mul(REST_PER_WAIT).min(REST_BUSY_MAX);
    own.max(of_others)
}

/// A barrier, where the log can take one: while no majority answers, each would only lie in it.
async fn barrier(cluster: &Cluster, term: u64) -> Result<Changed, LeadingError> {
    if !cluster.leads_in(term) {
        return Err(LeadingError::NotLeading(term));
    }
    if !cluster.raft().hears_majority() {
        return Err(ChangeError::OutcomeUnknown.into());
    }
    cluster.change_as_leader(Command::Barrier, term).await
}

/// Waits until the log has taken a barrier, and with it whatever was proposed before: the entries
/// of one term are in the order in which they were proposed.
///
/// # Errors
/// Where it never will: another server leads, or the log has stopped.
async fn settled<B>(mut barrier: impl FnMut() -> B) -> Result<(), LeadingError>
where
    B: Future<Output = Result<Changed, LeadingError>>,
{
    loop {
        match barrier().await {
            Ok(_) => return Ok(()),
            // The log is still stalled, or overloaded.
            Err(LeadingError::Change(ChangeError::OutcomeUnknown | ChangeError::NoLeader(_))) => {
                sleep(SETTLE_PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::Outcome;

    use super::*;

    #[test]
    fn the_next_piece_waits_longer_where_reports_wait() {
        let of = |piece, reports| {
            let ms = Duration::from_millis;
            rest(ms(piece), ms(reports)).as_millis()
        };
        assert_eq!([of(0, 0), of(3, 0), of(60, 0)], [0, 6, 20]);
        assert_eq!([of(3, 1), of(3, 10), of(60, 10)], [6, 40, 40]);
        assert_eq!(of(3, 4_000), 50, "it goes on, however long they wait");
    }

    #[tokio::test]
    async fn a_plan_of_which_nobody_knows_is_settled_by_a_barrier_behind_it() {
        let unknown = || Err(LeadingError::from(ChangeError::OutcomeUnknown));
        let changed = Changed {
            index: 7,
            outcome: Outcome::Done,
        };
        let mut answers = vec![Ok(changed), unknown(), unknown()];
        let settled_late = settled(|| {
            let answer = answers.pop().expect("not asked again once it is known");
            async move { answer }
        });
        settled_late.await.expect("the log took a barrier");
        assert!(answers.is_empty(), "it was asked until it was known");

        let mut answers = vec![Err(LeadingError::NotLeading(3)), unknown()];
        let deposed = settled(|| {
            let answer = answers.pop().expect("not asked again once it is known");
            async move { answer }
        });
        assert!(matches!(deposed.await, Err(LeadingError::NotLeading(3))));
    }
}
