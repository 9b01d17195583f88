//! The calling side: what the consensus library sends to other servers.

use std::future::Future;
use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use openraft::OptionalSend;
use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use protocol_error_chain::chain;
use protocol_transport::{FrameReader, FrameWriter, OpenError, Pool, StreamKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::addresses::Addresses;
use super::call::{
    AppendAnswer, AppendRecord, CHUNK_BYTES, Call, CallKind, FRAME_BYTES_MAX, SnapshotOffer,
    TransferAnswer, TransferCall, VoteAnswer, VoteCall,
};
use super::reach::{News, Reach};
use crate::engine::{SnapshotMeta, TypeConfig, Vote};
use crate::member::{ServerId, ServerInfo};
use crate::record::{self, RecordError, VoteRecord};
use crate::store::disk::Cursor;
use crate::store::snapshot::SnapshotFile;

/// Below every other stream: a snapshot may wait, a heartbeat may not.
const SNAPSHOT_PRIORITY: i32 = -20;

/// How long one chunk of a snapshot may take to be taken over by the transport.
const CHUNK_PATIENCE: Duration = Duration::from_secs(10);

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("no stream to {address}")]
    Open {
        address: String,
        #[source]
        source: OpenError,
    },
    #[error("no answer from {address} within {limit:?}")]
    Timeout { address: String, limit: Duration },
    #[error("sending to {address}")]
    Send {
        address: String,
        #[source]
        source: protocol_transport::WriteError,
    },
    #[error("receiving from {address}")]
    Receive {
        address: String,
        #[source]
        source: protocol_transport::ReadError,
    },
    #[error("the answer of {address} cannot be read")]
    Answer {
        address: String,
        #[source]
        source: RecordError,
    },
    #[error("{address} answered with a frame of kind {kind}")]
    Kind { address: String, kind: u8 },
    #[error("{address} refused: {reason}")]
    Refused { address: String, reason: String },
}

/// Makes calls to any server.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pool: Pool,
    own_id: u64,
}

impl Caller {
    pub(crate) fn new(pool: Pool, own_id: u64) -> Self {
        Self { pool, own_id }
    }

    /// One call and its answer. A call that times out counts against its connection.
    pub(crate) async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        address: &str,
        to: u64,
        kind: CallKind,
        body: Q,
        limit: Duration,
    ) -> Result<A, CallError> {
        let bytes = record::encode(&Call {
            from: self.own_id,
            to,
            body,
        });
        match timeout(limit, self.exchange(address, kind, bytes)).await {
            Ok(answer) => answer,
            Err(_) => {
                self.pool.report_timeout(address);
                Err(CallError::Timeout {
                    address: address.to_owned(),
                    limit,
                })
            }
        }
    }

    async fn exchange<A: DeserializeOwned>(
        &self,
        address: &str,
        kind: CallKind,
        body: Bytes,
    ) -> Result<A, CallError> {
        let (mut writer, mut reader) = self.open(address).await?;
        let send = |source| CallError::Send {
            address: address.to_owned(),
            source,
        };
        writer.write(kind.to_byte(), body).await.map_err(send)?;
        writer.finish().map_err(send)?;
        self.answer(address, &mut reader).await
    }

    async fn open(&self, address: &str) -> Result<(FrameWriter, FrameReader), CallError> {
        let (send, recv) = self
            .pool
            .open(address, StreamKind::Raft)
            .await
            .map_err(|source| CallError::Open {
                address: address.to_owned(),
                source,
            })?;
        Ok((
            FrameWriter::new(send, FRAME_BYTES_MAX),
            FrameReader::new(recv, FRAME_BYTES_MAX),
        ))
    }

    async fn answer<A: DeserializeOwned>(
        &self,
        address: &str,
        reader: &mut FrameReader,
    ) -> Result<A, CallError> {
        let address = || address.to_owned();
        let frame = reader.expect().await.map_err(|source| CallError::Receive {
            address: address(),
            source,
        })?;
        self.pool.report_success(&address());
        match CallKind::from_byte(frame.kind) {
            Some(CallKind::Answer) => {
                record::decode("answer", &frame.body).map_err(|source| CallError::Answer {
                    address: address(),
                    source,
                })
            }
            Some(CallKind::Refusal) => Err(CallError::Refused {
                address: address(),
                reason: String::from_utf8_lossy(&frame.body).into_owned(),
            }),
            _ => Err(CallError::Kind {
                address: address(),
                kind: frame.kind,
            }),
        }
    }

    async fn send_snapshot(
        &self,
        address: &str,
        to: u64,
        vote: Vote,
        snapshot: SnapshotFile,
        limit: Duration,
    ) -> Result<Vote, SnapshotSendError> {
        let bytes = snapshot.bytes;
        let mut file = snapshot.whole();
        let (mut writer, mut reader) = self.open(address).await?;
        writer.set_priority(SNAPSHOT_PRIORITY);
        let offer = SnapshotOffer {
            vote: VoteRecord::from(vote),
            bytes,
        };
        let offer = record::encode(&Call {
            from: self.own_id,
            to,
            body: offer,
        });
        self.send_piece(address, &mut writer, CallKind::Snapshot, offer)
            .await?;
        loop {
            let chunk;
            (file, chunk) = read_chunk(file).await.map_err(SnapshotSendError::Read)?;
            if chunk.is_empty() {
                break;
            }
            self.send_piece(address, &mut writer, CallKind::Chunk, chunk)
                .await?;
        }
        let send = |source| CallError::Send {
            address: address.to_owned(),
            source,
        };
        writer.finish().map_err(send)?;
        let answer: VoteRecord = timeout(limit, self.answer(address, &mut reader))
            .await
            .map_err(|_| CallError::Timeout {
                address: address.to_owned(),
                limit,
            })??;
        Ok(answer.into())
    }

    async fn send_piece(
        &self,
        address: &str,
        writer: &mut FrameWriter,
        kind: CallKind,
        body: Bytes,
    ) -> Result<(), CallError> {
        match timeout(CHUNK_PATIENCE, writer.write(kind.to_byte(), body)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(CallError::Send {
                address: address.to_owned(),
                source,
            }),
            Err(_) => {
                self.pool.report_timeout(address);
                Err(CallError::Timeout {
                    address: address.to_owned(),
                    limit: CHUNK_PATIENCE,
                })
            }
        }
    }
}

async fn read_chunk(mut file: Cursor) -> std::io::Result<(Cursor, Bytes)> {
    let read = move || {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        (&mut file)
            .take(CHUNK_BYTES as u64)
            .read_to_end(&mut chunk)?;
        Ok((file, chunk.into()))
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(result) => result,
        Err(error) => Err(std::io::Error::other(error)),
    }
}

/// Why a snapshot was not installed.
#[derive(Debug, thiserror::Error)]
enum SnapshotSendError {
    #[error("reading our own snapshot")]
    Read(#[source] std::io::Error),
    #[error("the call failed")]
    Call(#[from] CallError),
}

/// What a client is for: it decides how long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Entries: the follower's fsync is in the way.
    Log,
    /// Liveness: the next one comes soon.
    Heartbeat,
}

/// Calls to one server, for the consensus library.
#[derive(Debug)]
pub(crate) struct Client {
    caller: Caller,
    to: u64,
    /// Where it was when this client was made.
    info: ServerInfo,
    addresses: Addresses,
    lane: Lane,
    append_limit: Duration,
    reach: Reach,
}

/// Makes clients.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) caller: Caller,
    pub(crate) addresses: Addresses,
    pub(crate) append_limit: Duration,
    pub(crate) reach: Reach,
}

impl Clients {
    fn client(&self, to: u64, info: &ServerInfo, lane: Lane) -> Client {
        let append_limit = self.append_limit;
        Client {
            caller: self.caller.clone(),
            to,
            info: info.clone(),
            addresses: self.addresses.clone(),
            lane,
            append_limit,
            reach: self.reach.clone(),
        }
    }
}

impl RaftNetworkFactory<TypeConfig> for Clients {
    type Network = Client;

    async fn new_client(&mut self, target: u64, node: &ServerInfo) -> Client {
        self.client(target, node, Lane::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &ServerInfo) -> Client {
        self.reach.forget(target);
        self.client(target, node, Lane::Heartbeat)
    }
}

impl Client {
    async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        action: RPCTypes,
        kind: CallKind,
        body: Q,
        limit: Duration,
    ) -> Result<A, RPCError<TypeConfig>> {
        self.caller
            .call(&self.address(), self.to, kind, body, limit)
            .await
            .map_err(|error| self.library_error(action, &error))
    }

    /// Tells people when the server ceases to answer, and when it answers again.
    fn tell(&self, error: Option<&RPCError<TypeConfig>>) {
        let news = match error {
            None => self.reach.on_answered(self.to),
            Some(_) => self.reach.on_failed(self.to, tokio::time::Instant::now()),
        };
        let (server, address) = (ServerId::from_u64(self.to), self.address());
        match (news, error) {
            (Some(News::Silent), Some(error)) => {
                let error = match error {
                    // The library's words name servers by numbers that are shown nowhere else.
                    RPCError::Timeout(late) => format!("no answer within {:?}", late.timeout),
                    other => other.to_string(),
                };
                tracing::warn!(%server, address, error, "server unreachable");
            }
            (Some(News::Back), _) => tracing::info!(%server, address, "server reachable again"),
            _ => {}
        }
    }

    fn address(&self) -> String {
        self.addresses.find(self.to, &self.info.address)
    }

    /// How the library should take a failure: "unreachable" makes it wait before the next try.
    fn library_error(&self, action: RPCTypes, error: &CallError) -> RPCError<TypeConfig> {
        match error {
            CallError::Timeout { limit, .. } => RPCError::Timeout(Timeout {
                action,
                id: self.caller.own_id,
                target: self.to,
                timeout: *limit,
            }),
            CallError::Open { .. } | CallError::Refused { .. } => {
                RPCError::Unreachable(Unreachable::from_string(chain(error)))
            }
            CallError::Send { .. }
            | CallError::Receive { .. }
            | CallError::Answer { .. }
            | CallError::Kind { .. } => RPCError::Network(NetworkError::from_string(chain(error))),
        }
    }
}

impl RaftNetworkV2<TypeConfig> for Client {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let limit = match self.lane {
            Lane::Log => option.soft_ttl().max(self.append_limit),
            Lane::Heartbeat => option.soft_ttl(),
        };
        let body = AppendRecord::from(rpc);
        let answer: Result<AppendAnswer, _> = self
            .call(RPCTypes::AppendEntries, CallKind::Append, body, limit)
            .await;
        if self.lane == Lane::Heartbeat {
            self.tell(answer.as_ref().err());
        }
        Ok(answer?.into())
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = VoteCall::from(rpc);
        let answer: VoteAnswer = self
            .call(RPCTypes::Vote, CallKind::Vote, body, option.soft_ttl())
            .await?;
        Ok(answer.into())
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = VoteCall::from(rpc);
        let answer: VoteAnswer = self
            .call(RPCTypes::Vote, CallKind::PreVote, body, option.soft_ttl())
            .await?;
        Ok(answer.into())
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: openraft::alias::SnapshotOf<TypeConfig, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let SnapshotMeta { last_log_id, .. } = snapshot.meta;
        let address = &self.address();
        tracing::info!(%address, last = ?last_log_id, "sending a snapshot");
        let sending =
            self.caller
                .send_snapshot(address, self.to, vote, snapshot.snapshot, option.hard_ttl());
        let sent = tokio::select! {
            closed = cancel => return Err(StreamingError::Closed(closed)),
            sent = sending => sent,
        };
        match sent {
            Ok(vote) => Ok(SnapshotResponse::new(vote)),
            Err(SnapshotSendError::Call(error)) => {
                Err(self.library_error(RPCTypes::InstallSnapshot, &error).into())
            }
            Err(error @ SnapshotSendError::Read(_)) => Err(StreamingError::StorageError(
                openraft::StorageError::read_snapshot(
                    None,
                    openraft::errors::ErrorSource::from_string(chain(&error)),
                ),
            )),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = TransferCall::from(&request);
        let answer: TransferAnswer = self
            .call(
                RPCTypes::TransferLeader,
                CallKind::TransferLeader,
                body,
                option.soft_ttl(),
            )
            .await?;
        Ok(answer.into())
    }
}
