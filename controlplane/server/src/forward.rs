//! What other servers ask of this one: to propose, to take a liveness report, to relay a call, to
//! tell volatile detail, to say which release it is, to change the log's members, to hand out and
//! keep KEKs, to renew locks on variables.

use std::sync::Arc;

use bytes::Bytes;
use controlplane_leader::Reading;
use controlplane_raft::ServerId;
use controlplane_state::Command;
use protocol_model::AllocId;
use protocol_transport::frame::Frame;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::{FrameMessage, from_frame, to_frame};
use protocol_wire::v1;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::cluster::{Cluster, SERVER_FRAME_BYTES_MAX, merged_reply};
use crate::config::Config;
use crate::gateway::Gateway;
use crate::gateway::liveness::{self, HeardReport};
use crate::keyring::KekService;
use crate::{membership, versions};

/// Allocations that one question may name.
const DETAIL_ALLOCS_MAX: usize = 4096;

/// Answers other servers.
#[derive(Clone, Debug)]
pub struct Forward {
    cluster: Cluster,
    gateway: Arc<Gateway>,
    keks: KekService,
    heard: mpsc::Sender<HeardReport>,
    config: Arc<Config>,
}

impl Forward {
    /// Answers for `cluster`, `gateway` and `keks`; liveness reports go to `heard`, the leader's
    /// loop. The server says of itself what `config` has.
    pub(crate) fn new(
        cluster: Cluster,
        (gateway, keks): (Arc<Gateway>, KekService),
        heard: mpsc::Sender<HeardReport>,
        config: Arc<Config>,
    ) -> Self {
        Self {
            cluster,
            gateway,
            keks,
            heard,
            config,
        }
    }

    /// Serves one stream of `connection`: one request, one answer (or a relayed call).
    pub async fn serve(
        &self,
        send: quinn::SendStream,
        recv: quinn::RecvStream,
        connection: &quinn::Connection,
    ) {
        let mut reader = FrameReader::new(recv, SERVER_FRAME_BYTES_MAX);
        let writer = FrameWriter::new(send, SERVER_FRAME_BYTES_MAX);
        let result = match reader.expect().await {
            Ok(frame) if frame.kind == v1::RelayRequest::KIND => {
                self.relay(frame, reader, writer, connection).await
            }
            Ok(frame) => self.answer(frame, writer).await,
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = result {
            tracing::debug!(%reason, "another server's request was not answered");
        }
    }

    async fn relay(
        &self,
        frame: Frame,
        reader: FrameReader,
        writer: FrameWriter,
        connection: &quinn::Connection,
    ) -> Result<(), String> {
        let request: v1::RelayRequest = parse(frame)?;
        let gateway = &self.gateway;
        gateway.relay(&request, writer, reader, connection).await
    }

    async fn answer(&self, frame: Frame, writer: FrameWriter) -> Result<(), String> {
        match frame.kind {
            v1::ProposeRequest::KIND => {
                let request: v1::ProposeRequest = parse(frame)?;
                let answer = tokio::select! {
                    answer = self.propose(request) => answer,
                    // What waits for the log makes room for what is waited for.
                    () = writer.abandoned() => return Err("it was given up".to_owned()),
                };
                reply(writer, &answer).await
            }
            v1::LivenessReport::KIND => reply(writer, &self.liveness(frame).await?).await,
            v1::DetailRequest::KIND => {
                let request: v1::DetailRequest = parse(frame)?;
                reply(writer, &self.detail(&request)).await
            }
            v1::AboutRequest::KIND => {
                let v1::AboutRequest {} = parse(frame)?;
                reply(writer, &versions::own(&self.cluster, &self.config)).await
            }
            v1::LockRenewRequest::KIND => {
                let request: v1::LockRenewRequest = parse(frame)?;
                reply(writer, &self.cluster.serve_renewal(request).await?).await
            }
            v1::KekRequest::KIND | v1::KekStore::KIND => {
                reply(writer, &self.keks(frame).await?).await
            }
            v1::KekProofRequest::KIND => {
                let request: v1::KekProofRequest = parse(frame)?;
                reply(writer, &self.keks.serve_proof(&request)).await
            }
            v1::MembershipRequest::KIND => {
                let request: v1::MembershipRequest = parse(frame)?;
                reply(writer, &membership::serve(&self.cluster, request).await?).await
            }
            other => Err(format!("frame kind {other} is no request between servers")),
        }
    }

    /// Hands the silence of another server's nodes to the leader's loop.
    async fn liveness(&self, frame: Frame) -> Result<v1::LivenessConfirmed, String> {
        let report: v1::LivenessReport = parse(frame)?;
        let heard = liveness::from_wire(&report, Instant::now())?;
        if !self.cluster.is_leader() {
            return Err("a liveness report for a leader that is elsewhere".to_owned());
        }
        if !self.cluster.raft().hears_majority() {
            return Err("a liveness report for a leader without a majority".to_owned());
        }
        let (answer, answered) = oneshot::channel();
        let heard = HeardReport {
            server: ServerId::from_u64(report.server_id),
            reading: match (report.crowded, report.late) {
                (true, _) => Reading::Crowded,
                (false, true) => Reading::Late,
                (false, false) => Reading::InTime,
            },
            heard,
            answer,
        };
        self.heard
            .send(heard)
            .await
            .map_err(|_| "the leader's loop is gone")?;
        let answer = answered.await.map_err(|_| "another server leads now")?;
        Ok(v1::LivenessConfirmed {
            report: report.report,
            not_watched: answer
                .not_watched
                .iter()
                .map(|node| Bytes::copy_from_slice(node.as_bytes()))
                .collect(),
            led_for_ms: answer
                .led_for
                .map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
        })
    }

    /// Proposes what another server sent. Updates of its nodes wait with those of this server's,
    /// and become one entry.
    pub(crate) async fn propose(&self, request: v1::ProposeRequest) -> v1::ProposeReply {
        let v1::ProposeRequest { command, asker } = request;
        let bytes = command.len();
        let read = match self.cluster.read_forwarded(&command) {
            Err(reply) => return reply,
            Ok(read) => read,
        };
        match read {
            Command::AllocUpdates { batches } if self.cluster.is_leader() => {
                let coalescer = self.gateway.coalescer();
                merged_reply(coalescer.submit_merged(batches, bytes).await)
            }
            other => match self.cluster.recheck_forwarded(asker.as_ref(), &other).await {
                Err(reply) => reply,
                Ok(()) => self.cluster.propose_here(command).await,
            },
        }
    }

    async fn keks(&self, frame: Frame) -> Result<v1::KekReply, String> {
        if frame.kind == v1::KekStore::KIND {
            let request = parse(frame)?;
            return Ok(self.keks.serve_store(&self.cluster, &request).await);
        }
        let request = parse(frame)?;
        Ok(self.keks.serve_request(&self.cluster, &request).await)
    }

    fn detail(&self, request: &v1::DetailRequest) -> v1::DetailReply {
        let details = request
            .alloc_ids
            .iter()
            .take(DETAIL_ALLOCS_MAX)
            .filter_map(|id| AllocId::from_slice(id))
            .filter_map(|id| Some((id, self.gateway.detail().of(id)?)))
            // Whoever has the node now knows newer ones.
            .filter(|(_, detail)| self.gateway.is_here(detail.node()))
            .map(|(id, detail)| v1::AllocDetail {
                alloc_id: id.as_bytes().to_vec().into(),
                tasks: detail
                    .events
                    .iter()
                    .map(|(name, events)| v1::TaskReport {
                        name: name.clone(),
                        events: events.iter().map(|event| event.as_ref().into()).collect(),
                        ..v1::TaskReport::default()
                    })
                    .collect(),
            })
            .collect();
        v1::DetailReply { details }
    }
}

fn parse<M: FrameMessage>(frame: Frame) -> Result<M, String> {
    from_frame(frame.kind, frame.body).map_err(|error| error.to_string())
}

async fn reply<M: FrameMessage>(mut writer: FrameWriter, message: &M) -> Result<(), String> {
    let (kind, body) = to_frame(message);
    writer
        .write(kind, body)
        .await
        .map_err(|error| error.to_string())?;
    writer.finish().map_err(|error| error.to_string())
}
