//! Changing the state: proposed here, or through whoever leads, again over elections, and only what
//! every server can read.

use std::time::Duration;

use bytes::Bytes;
use controlplane_raft::{Leader, ProposeError, RaftStatus, ServerId};
use controlplane_state::command::NETWORKS_LEVEL;
use controlplane_state::{Command, Outcome, Refusal, Stamped, codec};
use protocol_access::budget::Refused;
use protocol_transport::StreamKind;
use protocol_wire::v1;
use tokio::time::{Instant, sleep};

use super::call::CallError;
use super::recheck::Way;
use super::{Cluster, PATIENCE, RETRY_PAUSE, leads_in};
use crate::access::{Origin, Recheck};
use crate::versions::TooOld;

/// How long a leader that was replaced may still take to answer what it was asked before: some ways
/// to a server in another place. Whoever waits for one that was killed waits as long.
const REPLACED_GRACE: Duration = Duration::from_millis(200);

/// Why the state was not changed, or why nobody knows whether it was.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The state says no. Nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The caller lacks a right by now. Nothing changed.
    #[error("Permission denied")]
    Denied,
    /// The caller's budget for writes is spent. Nothing changed.
    #[error("{message}")]
    Limited {
        /// The budget and its size, in words.
        message: String,
        /// Seconds until the caller may try again.
        retry_after_s: u32,
    },
    /// No leader in time. Nothing changed.
    #[error("no leader of the cluster could be reached within {0:?}; try again")]
    NoLeader(Duration),
    /// The command does not fit into the log. Nothing changed.
    #[error("the change is too large for the log: {0}")]
    TooLarge(String),
    /// A server's release cannot read the command, which would stop it: the text says which server,
    /// which release, and what to do. Nothing changed.
    #[error("{0}")]
    OldServer(String),
    /// It may have happened. Look before trying again.
    #[error(
        "the outcome is not known: the leader was lost while it answered; look before retrying"
    )]
    OutcomeUnknown,
    /// Another server answered something that makes no sense.
    #[error("the leader's answer makes no sense: {0}")]
    Nonsense(String),
    /// This server's log has stopped. What it had sent to the others already may have happened.
    #[error("this server has stopped: {0}; look at another one before retrying")]
    Stopped(String),
}

impl From<Refused> for ChangeError {
    fn from(refused: Refused) -> Self {
        Self::Limited {
            message: refused.to_string(),
            retry_after_s: u32::try_from(refused.retry_after_seconds()).unwrap_or(u32::MAX),
        }
    }
}

/// Why the leader of a term did not change the state.
#[derive(Debug, thiserror::Error)]
pub enum LeadingError {
    /// This server does not lead in that term, or ceased to while it waited. Then the log may still
    /// take the change, as one of that term: whoever leads next counts from what is applied.
    #[error("this server does not lead in term {0}")]
    NotLeading(u64),
    /// As for anybody else's change.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// A change that is on a majority.
#[derive(Clone, PartialEq, Debug)]
pub struct Changed {
    /// The state's index with it.
    pub index: u64,
    /// What the state answered.
    pub outcome: Outcome,
}

impl Cluster {
    /// Changes the state for this server itself, here or through the leader, and answers what the
    /// state said.
    ///
    /// # Errors
    /// See [`ChangeError`]; a refusal of the state is one too.
    pub async fn change(&self, command: Command) -> Result<Changed, ChangeError> {
        self.change_for(command, &Origin::Internal).await
    }

    /// The same for `origin`, whose rights the leader judges once more before it proposes.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub(crate) async fn change_for(
        &self,
        command: Command,
        origin: &Origin,
    ) -> Result<Changed, ChangeError> {
        self.understood(&command).map_err(ChangeError::OldServer)?;
        let bytes = codec::encode(&self.stamp(command))
            .map_err(|error| ChangeError::TooLarge(error.to_string()))?;
        let bytes = Bytes::from(bytes);
        let begun = Instant::now();
        let deadline = begun + PATIENCE;
        let _measured = self.changes.begin(begun);
        loop {
            let tried = self.try_change(bytes.clone(), origin).await;
            match tried {
                Err(error) if is_early(&error) && Instant::now() + RETRY_PAUSE < deadline => {
                    sleep(RETRY_PAUSE).await;
                }
                Err(ChangeError::NoLeader(_)) => return Err(ChangeError::NoLeader(PATIENCE)),
                done => return done,
            }
        }
    }

    async fn try_change(&self, bytes: Bytes, origin: &Origin) -> Result<Changed, ChangeError> {
        if let Origin::Caller(recheck) = origin {
            return self.try_for_caller(bytes, origin, recheck).await;
        }
        match self.raft.propose(bytes.clone()).await {
            Ok(proposed) => changed(&proposed.response),
            Err(ProposeError::NotLeader { leader }) => {
                let reply = self.forward(&leader, bytes, origin).await?;
                changed(&reply.response)
            }
            Err(error) => Err(own_error(error)),
        }
    }

    /// Proposes a caller's change where its rights were judged once more: here by a leader, or by
    /// the leader that it is sent to. The log of a follower is not asked: it might propose without
    /// that look when this server is elected meanwhile.
    async fn try_for_caller(
        &self,
        bytes: Bytes,
        origin: &Origin,
        recheck: &Recheck,
    ) -> Result<Changed, ChangeError> {
        if self.is_leader() {
            self.recheck(recheck, Way::Here).await?;
            return match self.raft.propose(bytes).await {
                Ok(proposed) => changed(&proposed.response),
                Err(ProposeError::NotLeader { .. }) => Err(ChangeError::NoLeader(PATIENCE)),
                Err(error) => Err(own_error(error)),
            };
        }
        let leader = self.leader().filter(|leader| leader.id != self.server_id());
        let leader = leader.ok_or(ChangeError::NoLeader(PATIENCE))?;
        let reply = self.forward(&leader, bytes, origin).await?;
        changed(&reply.response)
    }

    /// Changes the state as the leader of `term`: proposed here and once, neither forwarded nor
    /// tried again. What only a leader can know (who is silent) is worth nothing once another one
    /// leads, which knows better.
    ///
    /// # Errors
    /// See [`LeadingError`].
    pub async fn change_as_leader(
        &self,
        command: Command,
        term: u64,
    ) -> Result<Changed, LeadingError> {
        self.understood(&command).map_err(ChangeError::OldServer)?;
        let bytes = codec::encode(&self.stamp(command))
            .map_err(|error| ChangeError::TooLarge(error.to_string()))?;
        let mut standing = self.raft.standing();
        tokio::select! {
            // First: the log waits over elections, and must not be asked anew after one.
            biased;
            _ = standing.wait_for(|status| !leads_in(status, term)) => {
                Err(LeadingError::NotLeading(term))
            }
            proposed = self.raft.propose(Bytes::from(bytes)) => match proposed {
                Ok(proposed) => Ok(changed(&proposed.response)?),
                Err(ProposeError::NotLeader { .. }) => Err(LeadingError::NotLeading(term)),
                Err(error) => Err(own_error(error).into()),
            },
        }
    }

    async fn forward(
        &self,
        leader: &Leader,
        command: Bytes,
        origin: &Origin,
    ) -> Result<v1::ProposeReply, ChangeError> {
        use v1::propose_error::Kind;
        let request = v1::ProposeRequest {
            command,
            asker: Some(origin.to_wire()),
        };
        let called = tokio::select! {
            called = self.call(leader, StreamKind::Forward, &request) => called,
            () = self.replaced(leader.id) => {
                if let Some(info) = &leader.info {
                    self.pool.report_timeout(&info.address);
                }
                Err(CallError::Broken("another server leads now".to_owned()))
            }
        };
        let reply: v1::ProposeReply = match called {
            Ok(reply) => reply,
            Err(CallError::NotSent(_)) => return Err(ChangeError::NoLeader(PATIENCE)),
            // It was sent: the leader may have written it.
            Err(CallError::Broken(_)) => return Err(ChangeError::OutcomeUnknown),
            Err(CallError::Nonsense(what)) => return Err(ChangeError::Nonsense(what)),
        };
        let Some(error) = &reply.error else {
            return Ok(reply);
        };
        match Kind::try_from(error.kind) {
            Ok(Kind::NotLeader | Kind::Unavailable) => Err(ChangeError::NoLeader(PATIENCE)),
            Ok(Kind::Denied) => Err(ChangeError::Denied),
            Ok(Kind::Limited) => Err(ChangeError::Limited {
                message: error.message.clone(),
                retry_after_s: error.retry_after_s,
            }),
            Ok(Kind::TooLarge) => Err(ChangeError::TooLarge(error.message.clone())),
            Ok(Kind::OldServer) => Err(ChangeError::OldServer(error.message.clone())),
            Ok(Kind::Unspecified) => Err(ChangeError::OutcomeUnknown),
            Err(_) => Err(ChangeError::Nonsense(error.message.clone())),
        }
    }

    /// Ends a little after another server has been elected in place of `leader`. A process that was
    /// killed closes no QUIC connection: without this, its callers would wait out their whole time.
    async fn replaced(&self, leader: ServerId) {
        let mut status = self.status.clone();
        let other = |status: &RaftStatus| status.leader.as_ref().is_some_and(|l| l.id != leader);
        if status.wait_for(other).await.is_err() {
            // The log is gone, and with it the news: the call's own limit holds.
            std::future::pending::<()>().await;
        }
        sleep(REPLACED_GRACE).await;
    }

    fn stamp(&self, mut command: Command) -> Stamped {
        if command.says_networks() && self.too_old(NETWORKS_LEVEL).is_some() {
            command.leave_networks_out();
        }
        Stamped {
            now: self.clock.now(),
            seed: *uuid::Uuid::new_v4().as_bytes(),
            command,
        }
    }

    /// Whether every server would understand a command; who would not, and what to do, if not.
    pub(crate) fn understood(&self, command: &Command) -> Result<(), String> {
        let too_old = self.too_old(command.level());
        too_old.map_or(Ok(()), |old| Err(old.to_string()))
    }

    /// A member that has said that it does not read commands of `level`.
    pub(crate) fn known_too_old(&self, level: u32) -> Option<TooOld> {
        let status = self.status.borrow();
        let members = &status.membership;
        self.versions.known_too_old(level, status.id, members)
    }

    pub(crate) fn too_old(&self, level: u32) -> Option<TooOld> {
        let status = self.status.borrow();
        self.versions.too_old(level, status.id, &status.membership)
    }
}

fn changed(response: &[u8]) -> Result<Changed, ChangeError> {
    let applied = codec::decode_applied(response)
        .map_err(|error| ChangeError::Nonsense(error.to_string()))?;
    // The log's own index is another one: see `Tables::index`.
    let index = applied.index;
    match applied.outcome {
        Outcome::Refused(refusal) => Err(ChangeError::Refused(refusal)),
        outcome => Ok(Changed { index, outcome }),
    }
}

/// Whether nothing changed and the reason passes by itself. A cluster that was formed a moment ago
/// has a leader before its first command, which makes the state's tables, is applied.
fn is_early(error: &ChangeError) -> bool {
    matches!(
        error,
        ChangeError::NoLeader(_) | ChangeError::Refused(Refusal::NotInitialized)
    )
}

fn own_error(error: ProposeError) -> ChangeError {
    match error {
        ProposeError::NotLeader { .. } | ProposeError::Overloaded => {
            ChangeError::NoLeader(PATIENCE)
        }
        ProposeError::Unavailable { waited } => ChangeError::NoLeader(waited),
        ProposeError::TooLarge { .. } => ChangeError::TooLarge(error.to_string()),
        ProposeError::OutcomeUnknown => ChangeError::OutcomeUnknown,
        ProposeError::Stopped(stopped) => ChangeError::Stopped(stopped.to_string()),
    }
}
