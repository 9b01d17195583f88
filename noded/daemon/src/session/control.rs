//! The control stream of a session: what the core says goes out on it, what the server answers
//! comes in.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use noded_core::effect::{SessionMessage, UpdateClass};
use noded_core::event::SessionEvent;
use noded_core::key::SessionEpoch;
use protocol_error_chain::chain;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::{FrameMessage, to_frame};
use protocol_wire::v1;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{OUTBOUND_MAX, Outbound, OutboundFull, Own, bulk, convert, parse};

impl Own {
    /// Carries out what the core wants. What goes on the stream waits for the stream; heartbeats,
    /// which travel alone, wait for none of it: a complete report may take longer to be read than a
    /// node may be silent.
    pub(super) async fn write(
        &self,
        writer: FrameWriter,
        mut first: Option<Outbound>,
        mut messages: mpsc::Receiver<Outbound>,
        [urgent, typical]: [mpsc::Sender<v1::StatusBatch>; 2],
    ) -> Result<(), String> {
        let mut live: JoinSet<Result<(), String>> = JoinSet::new();
        // What may fail: at most one for each Welcome.
        let mut aside: JoinSet<Result<(), String>> = JoinSet::new();
        let mut greeted = Instant::now();
        let mut queries = None;
        let (stream, frames) = mpsc::channel(OUTBOUND_MAX);
        let writing = write_all(writer, frames);
        tokio::pin!(writing);
        loop {
            let outbound = tokio::select! {
                broken = &mut writing => return broken,
                Some(ended) = live.join_next() => {
                    let why = ended.map_err(|error| error.to_string())?;
                    return Err(why.err().unwrap_or_else(|| "the watch ended".to_owned()));
                }
                Some(first) = async { first.take() } => Some(first),
                outbound = messages.recv() => outbound,
            };
            match outbound {
                None => return Ok(()),
                Some(Outbound::OpenWatch { known }) => {
                    let epoch = SessionEpoch(self.epoch.load(Ordering::Relaxed));
                    queries.get_or_insert_with(|| self.begin_queries(epoch));
                    live.spawn(self.clone().watch(epoch, known));
                    live.spawn(bulk::serve(self.clone(), epoch, greeted.elapsed()));
                }
                Some(Outbound::Message(SessionMessage::Detail { epoch, parts })) => {
                    aside.spawn(self.clone().detail(epoch, parts));
                }
                Some(Outbound::Message(SessionMessage::StatusBatch(batch))) => {
                    let batches = match batch.class {
                        UpdateClass::Urgent => &urgent,
                        UpdateClass::Typical => &typical,
                    };
                    let sent = batches.send(convert::status_batch(&batch)).await;
                    sent.map_err(|_| "an update stream ended".to_owned())?;
                }
                Some(Outbound::Message(message)) => {
                    if matches!(message, SessionMessage::Hello(_)) {
                        greeted = Instant::now();
                    }
                    self.queue(&stream, message)?;
                }
            }
        }
    }

    /// Gives the stream what goes on it, in order, and sends alone what may go alone.
    fn queue(&self, stream: &mpsc::Sender<Frame>, message: SessionMessage) -> Result<(), String> {
        let frame = match message {
            SessionMessage::Hello(hello) => to_frame(&self.hello(&hello)?),
            SessionMessage::SyncPart(part) => {
                let facts = part.with_facts.then(|| self.facts()).transpose()?;
                to_frame(&convert::sync_part(&part, facts))
            }
            SessionMessage::Heartbeat { epoch, tick, sent } => {
                let heartbeat = convert::heartbeat(epoch, tick, sent);
                if self.send_alone(&heartbeat) {
                    return Ok(());
                }
                to_frame(&heartbeat)
            }
            SessionMessage::Facts { epoch } => to_frame(&v1::FactsUpdate {
                epoch: epoch.0,
                facts: Some(self.facts()?),
            }),
            SessionMessage::WatchAck { epoch, index } => to_frame(&v1::WatchAck {
                epoch: epoch.0,
                index,
            }),
            // These have streams of their own.
            SessionMessage::Detail { .. } | SessionMessage::StatusBatch(_) => return Ok(()),
        };
        stream.try_send(frame).map_err(|error| match error {
            TrySendError::Full(_) => OutboundFull.to_string(),
            TrySendError::Closed(_) => "the stream ended".to_owned(),
        })
    }

    pub(super) async fn read(
        &self,
        mut reader: FrameReader,
        [urgent, typical]: [mpsc::Receiver<v1::StatusBatch>; 2],
    ) -> Result<(), String> {
        let mut batches = Some((urgent, typical));
        let mut streams: JoinSet<Result<(), String>> = JoinSet::new();
        loop {
            let frame = tokio::select! {
                biased;
                Some(ended) = streams.join_next() => {
                    let why = ended.map_err(|error| error.to_string())?;
                    return Err(why.err().unwrap_or_else(|| "a stream ended".to_owned()));
                }
                // Not cancel-safe, but cancelled only together with the whole attempt.
                frame = reader.expect() => frame.map_err(|error| chain(&error))?,
            };
            match frame.kind {
                v1::Welcome::KIND => {
                    let welcome: v1::Welcome = parse(frame)?;
                    let (event, servers) = convert::welcome(&welcome)?;
                    let epoch = SessionEpoch(welcome.epoch);
                    let Some((urgent, typical)) = batches.take() else {
                        return Err("a second Welcome".to_owned());
                    };
                    self.epoch.store(epoch.0, Ordering::Relaxed);
                    self.calls.on_welcome(welcome.protocol);
                    self.tell(SessionEvent::Welcome(event), servers).await?;
                    streams.spawn(self.clone().updates(UpdateClass::Urgent, epoch, urgent));
                    streams.spawn(self.clone().updates(UpdateClass::Typical, epoch, typical));
                }
                v1::SyncAck::KIND => {
                    let ack: v1::SyncAck = parse(frame)?;
                    let epoch = SessionEpoch(ack.epoch);
                    let index = ack.index;
                    self.tell(SessionEvent::SyncAck { epoch, index }, Vec::new())
                        .await?;
                }
                v1::FactsAck::KIND => {
                    let ack: v1::FactsAck = parse(frame)?;
                    let epoch = SessionEpoch(ack.epoch);
                    self.tell(SessionEvent::FactsAck { epoch }, Vec::new())
                        .await?;
                }
                v1::HeartbeatAck::KIND => {
                    let ack = convert::heartbeat_ack(&parse(frame)?);
                    self.tell(SessionEvent::HeartbeatAck(ack), Vec::new())
                        .await?;
                }
                v1::CallsWanted::KIND => {
                    let v1::CallsWanted {} = parse(frame)?;
                    self.calls.on_wanted();
                }
                v1::Refused::KIND => {
                    let refused: v1::Refused = parse(frame)?;
                    tracing::warn!(
                        address = %self.address,
                        reason = refused.reason().as_str_name(),
                        message = %refused.message,
                        "the server refused the session"
                    );
                    let (event, servers) = convert::refused(&refused);
                    self.tell(SessionEvent::Refused(event), servers).await?;
                }
                other => return Err(format!("frame kind {other} does not belong into a session")),
            }
        }
    }
}

type Frame = (u8, Bytes);

/// Writes frames in their order. Ends only where the stream breaks.
async fn write_all(
    mut writer: FrameWriter,
    mut frames: mpsc::Receiver<Frame>,
) -> Result<(), String> {
    while let Some((kind, body)) = frames.recv().await {
        let written = writer.write(kind, body).await;
        written.map_err(|error| chain(&error))?;
    }
    std::future::pending().await
}
