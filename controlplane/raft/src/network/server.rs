//! The answering side: one call per stream, refused with a reason when it cannot be served.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::ReadPolicy;
use openraft::errors::RaftError;
use openraft::storage::Snapshot;
use parking_lot::Mutex;
use protocol_transport::{Fault, FrameReader, FrameWriter, PeerIdentity, Region, Role};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::call::{
    AppendAnswer, AppendRecord, Call, CallKind, FRAME_BYTES_MAX, ReadIndexAnswer, SnapshotOffer,
    TransferAnswer, TransferCall, VoteAnswer, VoteCall,
};
use crate::engine::{Core, Fatal};
use crate::formation::Formation;
use crate::record::{self, RecordError, VoteRecord};
use crate::store::snapshot::SnapshotStore;

/// Calls served at a time; further ones are refused, and their callers come back.
const CALLS_MAX: usize = 256;

/// How long a caller may take to send its call, or the next chunk of its snapshot.
const CALL_PATIENCE: Duration = Duration::from_secs(15);

/// Why a stream was not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("a {0} may not speak Raft")]
    NotServer(Role),
    #[error("a server of region {0} has a cluster of its own")]
    OtherRegion(Region),
    #[error("reading the call")]
    Read(#[source] protocol_transport::ReadError),
    #[error("the call did not arrive in time")]
    Timeout,
    #[error("frame kind {0} is no call")]
    Kind(u8),
    #[error("the call cannot be read")]
    Call(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("a snapshot of {bytes} bytes is above the cap of {bytes_max}")]
    SnapshotTooLarge { bytes: u64, bytes_max: u64 },
    #[error("the snapshot is longer or shorter than was offered")]
    SnapshotLength,
    #[error("keeping the snapshot")]
    Keep(#[source] std::io::Error),
    #[error("answering")]
    Write(#[source] protocol_transport::WriteError),
}

impl ServeError {
    pub fn fault(&self) -> Fault {
        match self {
            Self::NotServer(_)
            | Self::OtherRegion(_)
            | Self::Kind(_)
            | Self::Call(_)
            | Self::SnapshotTooLarge { .. }
            | Self::SnapshotLength => Fault::Peer,
            Self::Read(error) => error.fault(),
            Self::Write(error) => error.fault(),
            Self::Timeout => Fault::Environment,
            Self::Keep(_) => Fault::Us,
        }
    }
}

impl From<RecordError> for ServeError {
    fn from(error: RecordError) -> Self {
        Self::Call(Box::new(error))
    }
}

/// An answer that the caller understands, or why there is none.
type Answer = Result<Bytes, String>;

/// What a [`Service`] is made of.
pub(crate) struct ServiceParts {
    pub(crate) core: Core,
    pub(crate) own_id: u64,
    /// Servers of other regions have their own clusters, under the same authority.
    pub(crate) region: Region,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) snapshot_bytes_max: u64,
    pub(crate) formation: Formation,
    /// Before this moment no vote is given: a server that restarts has forgotten to which leader
    /// it promised its lease, so it votes only when any such lease has run out.
    pub(crate) votes_from: Instant,
}

/// Answers the calls of other servers.
pub(crate) struct Service {
    parts: ServiceParts,
    last_contact: Mutex<Option<Instant>>,
    calls: Semaphore,
    /// Only one snapshot is received at a time: each may be as large as the disk allows.
    reception: Semaphore,
}

impl Service {
    pub(crate) fn new(parts: ServiceParts) -> Self {
        Self {
            parts,
            last_contact: Mutex::new(None),
            calls: Semaphore::new(CALLS_MAX),
            reception: Semaphore::new(1),
        }
    }

    /// How long ago a leader was last heard.
    pub(crate) fn last_contact(&self) -> Option<Duration> {
        self.last_contact.lock().map(|heard| heard.elapsed())
    }

    /// Serves one stream, whose kind was read already.
    pub(crate) async fn serve(
        &self,
        peer: &PeerIdentity,
        send: quinn::SendStream,
        recv: quinn::RecvStream,
    ) -> Result<(), ServeError> {
        if peer.role != Role::Server {
            return Err(ServeError::NotServer(peer.role));
        }
        if peer.region != self.parts.region {
            return Err(ServeError::OtherRegion(peer.region.clone()));
        }
        let mut reader = FrameReader::new(recv, FRAME_BYTES_MAX);
        let mut writer = FrameWriter::new(send, FRAME_BYTES_MAX);
        let answer = match self.calls.try_acquire() {
            Ok(_permit) => self.answer(&mut reader).await?,
            Err(_) => Err("too many calls".to_owned()),
        };
        let (kind, body) = match answer {
            Ok(body) => (CallKind::Answer, body),
            Err(reason) => (CallKind::Refusal, reason.into()),
        };
        writer
            .write(kind.to_byte(), body)
            .await
            .map_err(ServeError::Write)?;
        writer.finish().map_err(ServeError::Write)
    }

    async fn answer(&self, reader: &mut FrameReader) -> Result<Answer, ServeError> {
        let frame = timeout(CALL_PATIENCE, reader.expect())
            .await
            .map_err(|_| ServeError::Timeout)?
            .map_err(ServeError::Read)?;
        let kind = CallKind::from_byte(frame.kind).ok_or(ServeError::Kind(frame.kind))?;
        match kind {
            CallKind::Append => self.append(&frame.body).await,
            CallKind::Vote | CallKind::PreVote => self.vote(kind, &frame.body).await,
            CallKind::TransferLeader => self.transfer_leader(&frame.body).await,
            CallKind::Snapshot => self.snapshot(&frame.body, reader).await,
            CallKind::ReadIndex => self.read_index(&frame.body).await,
            CallKind::Introduce | CallKind::Pledge | CallKind::Release | CallKind::Join => {
                Ok(self.parts.formation.answer(kind, &frame.body).await?)
            }
            CallKind::Chunk | CallKind::Answer | CallKind::Refusal => {
                Err(ServeError::Kind(frame.kind))
            }
        }
    }

    /// Decodes a call and checks that it is meant for this server.
    fn open<T: DeserializeOwned>(
        &self,
        what: &'static str,
        bytes: &[u8],
    ) -> Result<Result<T, String>, ServeError> {
        let call: Call<T> = record::decode(what, bytes)?;
        if call.to == self.parts.own_id {
            Ok(Ok(call.body))
        } else {
            Ok(Err(format!("server {:016x} is not here", call.to)))
        }
    }

    async fn append(&self, bytes: &[u8]) -> Result<Answer, ServeError> {
        let call = match self.open::<AppendRecord>("append", bytes)? {
            Ok(call) => call,
            Err(reason) => return Ok(Err(reason)),
        };
        let answer = self
            .parts
            .core
            .append_entries(call.try_into()?)
            .await
            .map(AppendAnswer::from);
        if let Ok(AppendAnswer::Success | AppendAnswer::Partial(_)) = answer {
            self.heard_leader();
        }
        Ok(answer_of(answer))
    }

    async fn vote(&self, kind: CallKind, bytes: &[u8]) -> Result<Answer, ServeError> {
        let call = match self.open::<VoteCall>("vote request", bytes)? {
            Ok(call) => call,
            Err(reason) => return Ok(Err(reason)),
        };
        if Instant::now() < self.parts.votes_from {
            return Ok(Err("restarted a moment ago, no votes yet".to_owned()));
        }
        let answer = match kind {
            CallKind::PreVote => self.parts.core.pre_vote(call.into()).await,
            _ => self.parts.core.vote(call.into()).await,
        };
        Ok(answer_of(answer.map(VoteAnswer::from)))
    }

    async fn transfer_leader(&self, bytes: &[u8]) -> Result<Answer, ServeError> {
        let call = match self.open::<TransferCall>("transfer of leadership", bytes)? {
            Ok(call) => call,
            Err(reason) => return Ok(Err(reason)),
        };
        let answer = self.parts.core.handle_transfer_leader(call.into()).await;
        Ok(match answer {
            Ok(response) => Ok(record::encode(&TransferAnswer::from(response))),
            Err(fatal) => Err(stopped(&fatal)),
        })
    }

    async fn snapshot(&self, bytes: &[u8], reader: &mut FrameReader) -> Result<Answer, ServeError> {
        let offer = match self.open::<SnapshotOffer>("snapshot offer", bytes)? {
            Ok(offer) => offer,
            Err(reason) => return Ok(Err(reason)),
        };
        let bytes_max = self.parts.snapshot_bytes_max;
        if offer.bytes > bytes_max {
            return Err(ServeError::SnapshotTooLarge {
                bytes: offer.bytes,
                bytes_max,
            });
        }
        let Ok(_permit) = self.reception.try_acquire() else {
            return Ok(Err("another snapshot is being received".to_owned()));
        };
        let mut incoming = self.parts.snapshots.receive().map_err(ServeError::Keep)?;
        let mut missing = offer.bytes;
        loop {
            let frame = timeout(CALL_PATIENCE, reader.read())
                .await
                .map_err(|_| ServeError::Timeout)?
                .map_err(ServeError::Read)?;
            let Some(frame) = frame else { break };
            if frame.kind != CallKind::Chunk.to_byte() {
                return Err(ServeError::Kind(frame.kind));
            }
            missing = missing
                .checked_sub(frame.body.len() as u64)
                .ok_or(ServeError::SnapshotLength)?;
            self.heard_leader();
            incoming = blocking(move || incoming.write(&frame.body).map(|()| incoming)).await?;
        }
        if missing > 0 {
            return Err(ServeError::SnapshotLength);
        }
        let snapshot = blocking(move || incoming.finish()).await?;
        let meta = snapshot.meta.clone();
        tracing::info!(last = ?meta.last_log_id, bytes = offer.bytes, "installing a snapshot");
        let installed = self
            .parts
            .core
            .install_full_snapshot(offer.vote.into(), Snapshot { meta, snapshot })
            .await;
        Ok(match installed {
            Ok(response) => Ok(record::encode(&VoteRecord::from(response.vote))),
            Err(fatal) => Err(stopped(&fatal)),
        })
    }

    async fn read_index(&self, bytes: &[u8]) -> Result<Answer, ServeError> {
        let call: Call<()> = record::decode("read request", bytes)?;
        if let Err(reason) = self.open::<()>("read request", bytes)? {
            return Ok(Err(reason));
        }
        let answer = match self.parts.core.get_read_log_id(ReadPolicy::LeaseRead).await {
            Ok(found) => Ok(found),
            // The lease has run out: ask the quorum.
            Err(RaftError::APIError(_)) => {
                self.parts.core.get_read_log_id(ReadPolicy::ReadIndex).await
            }
            Err(fatal) => Err(fatal),
        };
        Ok(match answer {
            // It would wait for entries that nobody sends it.
            Ok(_) if !self.is_member(call.from) => Ok(record::encode(&ReadIndexAnswer::NotMember)),
            Ok((read_log_id, _)) => Ok(record::encode(&ReadIndexAnswer::Index(
                read_log_id.log_id().index,
            ))),
            Err(RaftError::APIError(_)) => Ok(record::encode(&ReadIndexAnswer::NotLeader)),
            Err(RaftError::Fatal(fatal)) => Err(stopped(&fatal)),
        })
    }

    /// Whether a server is in the configuration that counts here.
    fn is_member(&self, id: u64) -> bool {
        use openraft::async_runtime::watch::WatchReceiver;
        let receiver = self.parts.core.metrics();
        let metrics = receiver.borrow_watched();
        let mut members = metrics.membership_config.nodes();
        members.any(|(member, _)| *member == id)
    }

    fn heard_leader(&self) {
        *self.last_contact.lock() = Some(Instant::now());
    }
}

fn answer_of<T: Serialize>(answer: Result<T, RaftError<crate::engine::TypeConfig>>) -> Answer {
    match answer {
        Ok(answer) => Ok(record::encode(&answer)),
        Err(error) => Err(format!("this server has stopped: {error}")),
    }
}

fn stopped(fatal: &Fatal) -> String {
    format!("this server has stopped: {fatal}")
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, ServeError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(ServeError::Keep),
        Err(error) => Err(ServeError::Keep(std::io::Error::other(error))),
    }
}
