//! After a split vote, its candidates stand again one after the other, the lowest id first, and not
//! after another of the library's timeouts each: what led to the split would often go on into the
//! next election, and every timeout is time without a leader.
//!
//! Once per split: where votes take longer than that (a slow disk), another term would void those
//! that are on their way, and the library's next timeouts decide.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::status::{RaftRole, RaftStatus};

/// Tends to it from when this server may stand for election, for as long as the log runs: `stand`
/// makes it stand, and answers whether the log runs. `election_min` is the shortest of the
/// library's timeouts.
pub(crate) async fn run(
    stand: impl AsyncFn() -> bool,
    mut standing: watch::Receiver<RaftStatus>,
    election_min: Duration,
    may_stand_from: Instant,
) {
    sleep_until(may_stand_from).await;
    let mut stood = false;
    loop {
        let wait = {
            let status = standing.borrow_and_update();
            stood &= status.leader.is_none();
            wait(&status, election_min).filter(|_| !stood)
        };
        let turn = async {
            match wait {
                Some(wait) => sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = standing.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = turn => {
                stood = true;
                if !stand().await {
                    return;
                }
            }
        }
    }
}

/// How long after it became a candidate a server stands again: a fifth of the shortest timeout for
/// each voter up to itself, so that up to five servers come before any timeout.
fn wait(status: &RaftStatus, election_min: Duration) -> Option<Duration> {
    if status.role != RaftRole::Candidate || status.leader.is_some() {
        return None;
    }
    let before = status.membership.voters.keys();
    let before = before.filter(|id| **id <= status.id).count();
    let turn = u32::try_from(before).ok()?;
    Some(election_min / 5 * turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Leader, Membership, ServerId, ServerInfo};

    const MIN: Duration = Duration::from_millis(400);

    fn candidate(own: u64, voters: &[u64]) -> RaftStatus {
        let info = ServerInfo {
            name: String::new(),
            address: String::new(),
            http_address: String::new(),
        };
        let voters = voters
            .iter()
            .map(|id| (ServerId::from_u64(*id), info.clone()));
        RaftStatus {
            id: ServerId::from_u64(own),
            role: RaftRole::Candidate,
            term: 7,
            leader: None,
            last_index: 0,
            committed_index: 0,
            applied_index: 0,
            snapshot_index: 0,
            purged_index: 0,
            membership: Membership {
                voters: voters.collect(),
                learners: std::collections::BTreeMap::new(),
                changing: false,
                index: 1,
            },
            failure: None,
        }
    }

    #[test]
    fn candidates_stand_again_one_after_the_other_and_before_any_timeout() {
        let voters = [3, 14, 15, 92, 65];
        let mut waits: Vec<_> = [3, 14, 15, 65, 92]
            .iter()
            .filter_map(|own| wait(&candidate(*own, &voters), MIN))
            .collect();
        assert_eq!(waits.len(), voters.len());
        assert!(waits.is_sorted() && waits.last() <= Some(&MIN));
        waits.dedup();
        assert_eq!(waits.len(), voters.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_candidate_stands_again_once_until_it_knows_a_leader_and_never_before_it_may() {
        let begun = Instant::now();
        let (stood, mut seen) = tokio::sync::mpsc::channel(8);
        let (status, standing) = watch::channel(candidate(1, &[1, 2, 3]));
        let stand = async move || stood.try_send(begun.elapsed()).is_ok();
        let may_stand_from = begun + Duration::from_secs(1);
        let running = tokio::spawn(run(stand, standing, MIN, may_stand_from));
        let turn = MIN / 5;
        assert_eq!(seen.recv().await, Some(Duration::from_secs(1) + turn));
        // Another term without a leader: the library's timeouts decide.
        status.send_modify(|status| status.term += 1);
        sleep(Duration::from_secs(60)).await;
        assert!(seen.is_empty());
        let leader = Leader {
            id: ServerId::from_u64(2),
            info: None,
        };
        status.send_modify(|status| status.leader = Some(leader));
        sleep(Duration::from_secs(60)).await;
        assert!(seen.is_empty());
        status.send_modify(|status| status.leader = None);
        let again = begun.elapsed() + turn;
        assert_eq!(seen.recv().await, Some(again));
        drop(status);
        running.await.expect("it ends with the log");
    }

    #[test]
    fn who_follows_leads_or_knows_a_leader_does_not_stand() {
        for role in [
            RaftRole::Learner,
            RaftRole::Follower,
            RaftRole::Leader,
            RaftRole::Stopped,
        ] {
            let status = RaftStatus {
                role,
                ..candidate(1, &[1, 2, 3])
            };
            assert_eq!(wait(&status, MIN), None, "{role:?}");
        }
        let elected = RaftStatus {
            leader: Some(Leader {
                id: ServerId::from_u64(2),
                info: None,
            }),
            ..candidate(1, &[1, 2, 3])
        };
        assert_eq!(wait(&elected, MIN), None);
    }
}
