//! Changes that other servers ask this one to make, since it leads: read, then proposed here only.

use std::sync::Arc;

use bytes::Bytes;
use controlplane_raft::ProposeError;
use controlplane_state::{Applied, BatchResult, Command, Outcome, codec};
use protocol_wire::v1;
use protocol_wire::v1::propose_error::Kind;

use super::recheck::Way;
use super::{ChangeError, Cluster};
use crate::access::{Origin, origin_from_wire};
use crate::versions::{self, TooOld};

/// The level of commands from which on servers say where they come from.
const ORIGIN_LEVEL: u32 = 3;

impl Cluster {
    /// Reads what another server wants proposed.
    ///
    /// A follower that was upgraded already may speak of what this release cannot apply, or what
    /// another server of an older release cannot: once in the log it would stop every such server.
    ///
    /// # Errors
    /// What the other server is answered then.
    pub(crate) fn read_forwarded(&self, command: &[u8]) -> Result<Command, v1::ProposeReply> {
        let understood = match codec::decode(command) {
            Ok(stamped) => self.understood(&stamped.command).map(|()| stamped.command),
            Err(error) => {
                tracing::warn!(%error, "forwarded command refused: it cannot be decoded");
                Err(self.too_old_itself())
            }
        };
        understood.map_err(|why| not_proposed(Kind::OldServer, why))
    }

    /// Reads the origin of what another server wants proposed, and judges a caller once more. A
    /// server of an older release sends no origin: its commands are of older levels, and it has
    /// judged them.
    ///
    /// # Errors
    /// The answer for the other server.
    pub(crate) async fn recheck_forwarded(
        &self,
        asker: Option<&v1::Asker>,
        command: &Command,
    ) -> Result<(), v1::ProposeReply> {
        let Some(asker) = asker else {
            if command.level() < ORIGIN_LEVEL {
                return Ok(());
            }
            let why = "the command came without its origin".to_owned();
            return Err(not_proposed(Kind::Denied, why));
        };
        let origin = origin_from_wire(asker);
        let recheck = match origin.map_err(|why| not_proposed(Kind::Denied, why))? {
            Origin::Internal => return Ok(()),
            Origin::Caller(recheck) => recheck,
        };
        let checked = self.recheck(&recheck, Way::Forwarded).await;
        checked.map_err(|error| match error {
            ChangeError::Denied => not_proposed(Kind::Denied, error.to_string()),
            ChangeError::Limited {
                message,
                retry_after_s,
            } => limited(message, retry_after_s),
            other => not_proposed(Kind::Unavailable, other.to_string()),
        })
    }

    /// Proposes encoded bytes here only, which were read by [`Self::read_forwarded`].
    pub(crate) async fn propose_here(&self, command: Bytes) -> v1::ProposeReply {
        let error = match self.raft.propose(command).await {
            Ok(proposed) => {
                return v1::ProposeReply {
                    index: proposed.index,
                    response: proposed.response.into(),
                    error: None,
                };
            }
            Err(error) => error,
        };
        let kind = match error {
            ProposeError::NotLeader { .. } => Kind::NotLeader,
            ProposeError::TooLarge { .. } => Kind::TooLarge,
            // A log that is shut down has perhaps sent the entry to the others, who commit it.
            ProposeError::OutcomeUnknown | ProposeError::Stopped(_) => Kind::Unspecified,
            ProposeError::Unavailable { .. } | ProposeError::Overloaded => Kind::Unavailable,
        };
        not_proposed(kind, error.to_string())
    }

    /// What is said of this server where it does not know a command that another one proposed.
    fn too_old_itself(&self) -> String {
        let own = self.server_id();
        let (id, release) = (own, Some(versions::BUILD.to_owned()));
        let name = self
            .status
            .borrow()
            .membership
            .get(own)
            .map(|info| info.name.clone());
        TooOld {
            id,
            name: name.unwrap_or_default(),
            release,
        }
        .to_string()
    }
}

/// The answer for updates that were proposed together with others'.
pub(crate) fn merged_reply(
    judged: Result<(u64, Vec<BatchResult>), Arc<ChangeError>>,
) -> v1::ProposeReply {
    let (index, outcome) = match judged {
        Ok((index, results)) => (index, Outcome::Updates(results)),
        Err(error) => match &*error {
            ChangeError::Refused(refusal) => (0, Outcome::Refused(refusal.clone())),
            ChangeError::NoLeader(_) => return not_proposed(Kind::NotLeader, error.to_string()),
            ChangeError::TooLarge(text) => return not_proposed(Kind::TooLarge, text.clone()),
            ChangeError::OldServer(text) => return not_proposed(Kind::OldServer, text.clone()),
            ChangeError::Denied => return not_proposed(Kind::Denied, error.to_string()),
            ChangeError::Limited {
                message,
                retry_after_s,
            } => return limited(message.clone(), *retry_after_s),
            ChangeError::OutcomeUnknown | ChangeError::Nonsense(_) | ChangeError::Stopped(_) => {
                return not_proposed(Kind::Unspecified, error.to_string());
            }
        },
    };
    let applied = Applied {
        index,
        outcome,
        signals: Vec::new(),
    };
    match codec::encode_applied(&applied) {
        Ok(response) => v1::ProposeReply {
            index,
            response: response.into(),
            error: None,
        },
        // It happened, and cannot be told.
        Err(error) => not_proposed(Kind::Unspecified, error.to_string()),
    }
}

/// The answer for a caller whose budget is spent.
fn limited(message: String, retry_after_s: u32) -> v1::ProposeReply {
    let mut reply = not_proposed(Kind::Limited, message);
    if let Some(error) = &mut reply.error {
        error.retry_after_s = retry_after_s;
    }
    reply
}

/// Why a forwarded change was not proposed.
fn not_proposed(kind: Kind, message: String) -> v1::ProposeReply {
    let error = v1::ProposeError {
        kind: kind.into(),
        message,
        retry_after_s: 0,
    };
    v1::ProposeReply {
        index: 0,
        response: Bytes::new(),
        error: Some(error),
    }
}
