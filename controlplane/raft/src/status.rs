//! What a server knows about its own part in the log, as one value to watch.

use crate::engine::{Metrics, TypeConfig};
use crate::error::StoppedError;
use crate::member::{Leader, Membership, ServerId};
use crate::record;

/// A server's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RaftRole {
    /// Receives the log and does not vote; also a server that belongs to no cluster yet.
    Learner,
    Follower,
    Candidate,
    /// Leads, perhaps without knowing that its quorum is gone: [`crate::Raft::read_barrier`] tells.
    Leader,
    /// Will take no further part until the process restarts.
    Stopped,
}

/// A server's part in the log at one moment. Indexes are 0 where there is nothing yet.
#[derive(Debug, Clone, PartialEq)]
pub struct RaftStatus {
    pub id: ServerId,
    pub role: RaftRole,
    pub term: u64,
    pub leader: Option<Leader>,
    /// The newest entry in the local log.
    pub last_index: u64,
    /// The newest entry known to be on a majority.
    pub committed_index: u64,
    /// The newest entry given to the machine.
    pub applied_index: u64,
    /// The newest entry covered by a snapshot.
    pub snapshot_index: u64,
    /// The newest entry that the log no longer holds.
    pub purged_index: u64,
    pub membership: Membership,
    /// Why the server stopped, if it did.
    pub failure: Option<StoppedError>,
}

impl RaftStatus {
    /// Whether everything but the log's length is as in `other`.
    pub(crate) fn stands_as(&self, other: &Self) -> bool {
        self.role == other.role
            && self.term == other.term
            && self.leader == other.leader
            && self.membership == other.membership
            && self.failure == other.failure
    }

    pub(crate) fn of(metrics: &Metrics) -> Self {
        let membership = record::membership_view(&metrics.membership_config);
        let leader = metrics
            .current_leader
            .map(ServerId::from_u64)
            .map(|id| Leader {
                id,
                info: membership.get(id).cloned(),
            });
        let failure = metrics
            .running_state
            .as_ref()
            .err()
            .map(StoppedError::from_fatal);
        let index = |log_id: &Option<openraft::alias::LogIdOf<TypeConfig>>| {
            log_id.as_ref().map_or(0, openraft::LogId::index)
        };
        Self {
            id: ServerId::from_u64(metrics.id),
            role: role(metrics, failure.is_some()),
            term: metrics.current_term,
            leader,
            last_index: metrics.last_log_index.unwrap_or(0),
            committed_index: index(&metrics.cluster_committed).max(index(&metrics.local_committed)),
            applied_index: index(&metrics.last_applied),
            snapshot_index: index(&metrics.snapshot),
            purged_index: index(&metrics.purged),
            membership,
            failure,
        }
    }

    pub fn is_leader(&self) -> bool {
        self.role == RaftRole::Leader
    }

    /// Whether this server belongs to a cluster.
    pub fn is_member(&self) -> bool {
        self.membership.contains(self.id)
    }
}

fn role(metrics: &Metrics, failed: bool) -> RaftRole {
    if failed {
        return RaftRole::Stopped;
    }
    match metrics.state {
        openraft::ServerState::Learner => RaftRole::Learner,
        openraft::ServerState::Follower => RaftRole::Follower,
        openraft::ServerState::Candidate => RaftRole::Candidate,
        openraft::ServerState::Leader => RaftRole::Leader,
        openraft::ServerState::Shutdown => RaftRole::Stopped,
    }
}
