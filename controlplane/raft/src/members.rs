//! Changing who belongs to the cluster and who leads it. One change at a time; each ends in a
//! configuration that a majority of the old and of the new voters has accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::BoxFuture;
use openraft::ChangeMembers;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::engine::{Core, TypeConfig};
use crate::error::{ChangeError, StoppedError, forwarded_leader};
use crate::formation::{Admission, SERVERS_MAX};
use crate::member::{Leader, ServerId, ServerInfo};
use crate::network::call::{CallKind, Introduction, JoinAnswer};
use crate::network::client::Caller;
use crate::status::RaftStatus;
use crate::successor::{Candidate, successor};

/// How far behind the log's end a learner may be to become a voter. A voter further behind would
/// slow commits down as soon as another voter is lost.
const PROMOTION_LAG_MAX: u64 = 512;

/// How long a pause between two tries of a refused change is.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The members, as their leader changes them.
pub(crate) struct Members {
    pub(crate) core: Core,
    pub(crate) caller: Caller,
    pub(crate) own_id: ServerId,
    pub(crate) status: watch::Receiver<RaftStatus>,
    pub(crate) patience: Duration,
}

type Change = ChangeMembers<u64, ServerInfo>;
type WriteError = RaftError<TypeConfig, ClientWriteError<TypeConfig>>;

/// Whether what a change removes from the voters stays as a learner.
#[derive(Debug, Clone, Copy)]
enum Removed {
    Kept,
    Dropped,
}

impl Members {
    pub(crate) async fn add_learner(
        &self,
        id: ServerId,
        info: ServerInfo,
    ) -> Result<(), ChangeError> {
        {
            let membership = &self.status.borrow().membership;
            if membership.get(id) == Some(&info) {
                return Ok(());
            }
            if membership.contains(id) {
                return Err(ChangeError::Refused(format!(
                    "server {id} is a member already, reached otherwise; update it instead"
                )));
            }
            let mut all = membership.voters.iter().chain(&membership.learners);
            if let Some((taken, _)) = all.find(|(_, member)| member.address == info.address) {
                return Err(ChangeError::AddressTaken {
                    id: *taken,
                    address: info.address,
                });
            }
            let count = membership.voters.len() + membership.learners.len();
            if count >= SERVERS_MAX {
                return Err(ChangeError::TooManyServers(count));
            }
        }
        let nodes = BTreeMap::from([(id.as_u64(), info)]);
        self.change(ChangeMembers::AddNodes(nodes), Removed::Kept)
            .await
    }

    pub(crate) async fn promote(&self, id: ServerId) -> Result<(), ChangeError> {
        self.known(id)?;
        let voters = BTreeSet::from([id.as_u64()]);
        self.change(ChangeMembers::AddVoterIds(voters), Removed::Kept)
            .await
    }

    pub(crate) async fn remove(&self, id: ServerId) -> Result<(), ChangeError> {
        let votes = {
            let membership = &self.status.borrow().membership;
            let votes = membership.voters.contains_key(&id);
            if !membership.contains(id) {
                // A repeat of a removal that succeeded.
                return Ok(());
            }
            if votes && membership.voters.len() == 1 {
                return Err(ChangeError::LastVoter(id));
            }
            votes
        };
        let ids = BTreeSet::from([id.as_u64()]);
        let change = if votes {
            ChangeMembers::RemoveVoters(ids)
        } else {
            ChangeMembers::RemoveNodes(ids)
        };
        self.change(change, Removed::Dropped).await
    }

    pub(crate) async fn update(&self, id: ServerId, info: ServerInfo) -> Result<(), ChangeError> {
        self.known(id)?;
        let nodes = BTreeMap::from([(id.as_u64(), info)]);
        self.change(ChangeMembers::SetNodes(nodes), Removed::Kept)
            .await
    }

    /// Makes `to` the leader and waits until it is.
    pub(crate) async fn transfer(&self, to: ServerId) -> Result<(), ChangeError> {
        let mut status = self.status.clone();
        {
            let status = status.borrow_and_update();
            if status.leader.as_ref().is_some_and(|leader| leader.id == to) {
                return Ok(());
            }
            if !status.is_leader() {
                return Err(match status.leader.clone() {
                    Some(leader) => ChangeError::NotLeader { leader },
                    None => ChangeError::Unavailable {
                        waited: Duration::ZERO,
                    },
                });
            }
            if !status.membership.contains(to) {
                return Err(ChangeError::UnknownServer(to));
            }
            if !status.membership.voters.contains_key(&to) {
                return Err(ChangeError::NotVoter(to));
            }
        }
        self.core
            .trigger()
            .transfer_leader(to.as_u64())
            .await
            .map_err(|fatal| stopped(&fatal))?;
        let transferred = status.wait_for(|status| {
            status.failure.is_some() || status.leader.as_ref().is_some_and(|found| found.id == to)
        });
        match timeout(self.patience, transferred).await {
            Ok(Ok(status)) => match &status.failure {
                None => Ok(()),
                Some(failure) => Err(ChangeError::Stopped(failure.clone())),
            },
            Ok(Err(_)) => Err(ChangeError::Stopped(StoppedError::ShutDown)),
            // The target may have refused, for instance because its log was too far behind.
            Err(_) => Err(ChangeError::OutcomeUnknown),
        }
    }

    /// The voter that should lead after this server, as far as its own followers' answers tell.
    /// `lately` is how long ago an answer may be. `None` where this server does not lead, or alone.
    pub(crate) fn successor(&self, lately: Duration) -> Option<ServerId> {
        use openraft::Instant as _;
        use openraft::async_runtime::watch::WatchReceiver;
        let receiver = self.core.metrics();
        let metrics = receiver.borrow_watched();
        let (matched, answered) = (metrics.replication.as_ref()?, metrics.heartbeat.as_ref()?);
        let status = self.status.borrow();
        let others = status.membership.voters.keys();
        let others = others.filter(|id| **id != self.own_id);
        successor(
            others.map(|id| Candidate {
                id: *id,
                matched: matched
                    .get(&id.as_u64())
                    .and_then(|matched| matched.as_ref().map(|log_id| log_id.index)),
                silent: answered
                    .get(&id.as_u64())
                    .and_then(|at| at.as_ref().map(|at| at.elapsed())),
            }),
            lately,
        )
    }

    /// Whether this server leads and a majority answered what it sent `lately`.
    pub(crate) fn hears_majority(&self, lately: Duration) -> bool {
        use openraft::Instant as _;
        use openraft::async_runtime::watch::WatchReceiver;
        let receiver = self.core.metrics();
        let metrics = receiver.borrow_watched();
        if metrics.state != openraft::ServerState::Leader {
            return false;
        }
        let mut voters = metrics.membership_config.voter_ids();
        if voters.all(|id| id == self.own_id.as_u64()) {
            return true;
        }
        let acked = metrics.last_quorum_acked.as_ref();
        acked.is_some_and(|at| at.elapsed() <= lately)
    }

    /// The barrier of a leader that is alone: what it applied. Nobody can be elected beside it, and
    /// nobody shows what it committed and did not apply yet, so that neither the engine nor another
    /// server needs to be asked. `None` before it has applied an entry of its own term: until then
    /// entries of earlier terms may be missing.
    pub(crate) fn lone_barrier(&self) -> Option<u64> {
        use openraft::async_runtime::watch::WatchReceiver;
        let receiver = self.core.metrics();
        let metrics = receiver.borrow_watched();
        let leads = metrics.running_state.is_ok() && metrics.state == openraft::ServerState::Leader;
        let mut members = metrics.membership_config.nodes();
        let alone = members.all(|(id, _)| *id == self.own_id.as_u64());
        let applied = metrics.last_applied.as_ref().filter(|_| leads && alone)?;
        (*applied.leader_id == metrics.current_term).then_some(applied.index)
    }

    fn known(&self, id: ServerId) -> Result<(), ChangeError> {
        if self.status.borrow().membership.contains(id) {
            Ok(())
        } else {
            Err(ChangeError::UnknownServer(id))
        }
    }

    /// Makes one change, waiting for a leader, and for a change under way, as long as patience
    /// lasts.
    async fn change(&self, change: Change, removed: Removed) -> Result<(), ChangeError> {
        let retain = matches!(removed, Removed::Kept);
        let deadline = Instant::now() + self.patience;
        loop {
            let attempt = self.core.change_membership(change.clone(), retain);
            // Its own time: an attempt cut short would have an unknown outcome for no reason.
            let passing = match timeout(self.patience, attempt).await {
                Err(_) => return Err(ChangeError::OutcomeUnknown),
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => match self.refusal(error) {
                    // A new leader still has to commit the change that its predecessor made.
                    Some(ChangeError::InProgress) => ChangeError::InProgress,
                    Some(error) => return Err(error),
                    None => ChangeError::Unavailable {
                        waited: self.patience,
                    },
                },
            };
            if Instant::now() + RETRY_PAUSE >= deadline {
                return Err(passing);
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// What a refusal means; `None` when a leader is only just being found.
    fn refusal(&self, error: WriteError) -> Option<ChangeError> {
        let error = match error {
            RaftError::Fatal(fatal) => return Some(stopped(&fatal)),
            RaftError::APIError(error) => error,
        };
        match error {
            ClientWriteError::ForwardToLeader(forward) => {
                let leader = forwarded_leader(&forward)?;
                (leader.id != self.own_id).then_some(ChangeError::NotLeader { leader })
            }
            ClientWriteError::LogEntryDiscarded(_) => Some(ChangeError::OutcomeUnknown),
            ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_)) => {
                Some(ChangeError::InProgress)
            }
            // The leader has not committed an entry of its own term yet.
            ClientWriteError::ChangeMembershipError(
                ChangeMembershipError::UncommittedLeaderLog(_),
            ) => None,
            ClientWriteError::ChangeMembershipError(ChangeMembershipError::LearnerNotFound(
                missing,
            )) => Some(ChangeError::UnknownServer(ServerId::from_u64(
                missing.node_id,
            ))),
            ClientWriteError::ChangeMembershipError(other) => {
                Some(ChangeError::Refused(other.to_string()))
            }
            ClientWriteError::PreconditionFailed(other) => {
                Some(ChangeError::Refused(other.to_string()))
            }
        }
    }

    /// Takes one step towards making a server a voter: learner first, voter once it caught up.
    /// The server asks again until it votes, so that a change of the leader in between is no harm.
    async fn take_in(&self, id: ServerId, info: ServerInfo) -> Result<(), ChangeError> {
        let (known, learner) = {
            let status = self.status.borrow();
            if !status.is_leader() {
                return Err(match status.leader.clone() {
                    Some(leader) => ChangeError::NotLeader { leader },
                    None => ChangeError::Unavailable {
                        waited: Duration::ZERO,
                    },
                });
            }
            let learner = status.membership.learners.contains_key(&id);
            (status.membership.get(id).cloned(), learner)
        };
        match known {
            Some(known) if known == info => {
                let ready = learner && self.lag(id) <= PROMOTION_LAG_MAX;
                return if ready {
                    self.promote(id).await
                } else {
                    Ok(())
                };
            }
            Some(known) => {
                tracing::info!(server = %id, from = known.address, to = info.address, "moved");
                if id != self.own_id {
                    self.verify_address(id, &info).await?;
                }
                return self.update(id, info).await;
            }
            None => {}
        }
        self.verify_address(id, &info).await?;
        match self.add_learner(id, info.clone()).await {
            // We just saw that the new server answers there: the old one's directory is gone, and
            // its id will never be heard again.
            Err(ChangeError::AddressTaken { id: old, .. }) => {
                tracing::warn!(old = %old, new = %id, address = info.address, "server replaced");
                self.remove(old).await?;
                self.add_learner(id, info).await
            }
            added => added,
        }
    }

    /// Checks that who wants to be reached at an address is reached there.
    async fn verify_address(&self, id: ServerId, info: &ServerInfo) -> Result<(), ChangeError> {
        let own = Introduction {
            id: self.own_id,
            info: ServerInfo::default(),
            bootstrap_expect: 0,
            member: true,
            leader: None,
            heard_of: Vec::new(),
        };
        let limit = Duration::from_secs(2);
        let answer: Result<Introduction, _> = self
            .caller
            .call(&info.address, 0, CallKind::Introduce, own, limit)
            .await;
        match answer {
            Ok(found) if found.id == id => Ok(()),
            Ok(found) => Err(ChangeError::Refused(format!(
                "at {} answers server {}, not {id}",
                info.address, found.id
            ))),
            Err(error) => Err(ChangeError::Refused(format!(
                "{} is not reached from the leader: {}",
                info.address,
                protocol_error_chain::chain(&error)
            ))),
        }
    }

    /// How many entries a server lacks, as far as its answers tell.
    fn lag(&self, id: ServerId) -> u64 {
        use openraft::async_runtime::watch::WatchReceiver;
        let receiver = self.core.metrics();
        let metrics = receiver.borrow_watched();
        let matched = metrics
            .replication
            .as_ref()
            .and_then(|replication| replication.get(&id.as_u64()))
            .and_then(|matched| matched.as_ref().map(|log_id| log_id.index));
        match (metrics.last_log_index, matched) {
            (Some(last), Some(matched)) => last.saturating_sub(matched),
            (Some(_), None) => u64::MAX,
            (None, _) => 0,
        }
    }
}

impl Admission for Members {
    fn admit(&self, id: ServerId, info: ServerInfo) -> BoxFuture<'_, JoinAnswer> {
        Box::pin(async move {
            match self.take_in(id, info).await {
                // A change that is under way is perhaps this very one; the server asks again.
                Ok(()) | Err(ChangeError::InProgress) => JoinAnswer::Joined,
                Err(ChangeError::NotLeader {
                    leader: Leader { info, .. },
                }) => JoinAnswer::NotLeader(info),
                Err(error) => JoinAnswer::Refused(error.to_string()),
            }
        })
    }
}

fn stopped(fatal: &crate::engine::Fatal) -> ChangeError {
    ChangeError::Stopped(StoppedError::from_fatal(fatal))
}
