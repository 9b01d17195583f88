//! One node's session, from its Welcome to its end. `greeting` leads to the Welcome.
//!
//! ```text
//!   SyncPart ... SyncPart(last) --NodeSynced--> SyncAck   (commit)
//!   Heartbeat --> HeartbeatAck                         for as long as it lives
//!   a call wants the node's second connection --> CallsWanted
//! ```
//!
//! It ends when the node leaves, when the stream breaks, when the node breaks the protocol, or when
//! the state says that the session is over (another epoch, silent, purged).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controlplane_state::{Command, SessionEpoch, Welcome, WelcomeKind};
use protocol_model::{NodeId, NodeStatus};
use protocol_transport::{FrameReader, FrameWriter, Place};
use protocol_wire::kind::{FrameMessage as _, from_datagram, to_datagram};
use protocol_wire::v1;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::Gateway;
use super::answers::{Refuse, heard, welcomed};
use super::calls::CallLine;
use super::detail::Told;
use super::frames::{parse, read_frames, write};
use super::hello::{History, read_facts};
use super::liveness::Heard;
use super::sync::{self, Parts, Reporter};
use crate::cluster::ChangeError;

/// How long a node may owe its complete report.
const SYNC_MAX: Duration = Duration::from_secs(30);
/// Frames read ahead of the session's loop.
const FRAMES_AHEAD_MAX: usize = 8;

/// See the top of this file.
pub(super) struct Session<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) node: NodeId,
    pub(super) epoch: SessionEpoch,
    pub(super) history: History,
    /// Where heartbeats arrive on their own: one that is lost holds back no other.
    pub(super) connection: &'a quinn::Connection,
    /// Free for the next node once the session is live.
    pub(super) place: &'a Place,
    /// Since when it is the session's.
    pub(super) since: Instant,
    /// The way to the node's connection for calls.
    pub(super) calls: Arc<CallLine>,
    /// The changes since the Welcome.
    pub(super) progress: Progress,
}

/// How far a session is with what it changes in the state.
#[derive(Default)]
pub(super) struct Progress {
    /// The complete report, as it arrives.
    parts: Parts,
    /// Whether the complete report is in the log.
    sync_done: bool,
    /// Changes that wait for the log: at most one of each sort.
    changes: JoinSet<(Change, Result<u64, ChangeError>)>,
    changing: BTreeSet<Change>,
}

/// What a session changes in the state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Change {
    /// The node's facts.
    Facts,
    /// Its complete report.
    Report,
}

/// Why a session ended, for people.
pub(super) type EndReason = String;

impl Session<'_> {
    pub(super) async fn run(
        mut self,
        welcome: Welcome,
        reader: FrameReader,
        writer: &mut FrameWriter,
    ) -> EndReason {
        self.progress.sync_done = welcome.kind == WelcomeKind::Resumed;
        let welcome = welcomed(self.gateway, &welcome, self.calls.protocol());
        if let Err(reason) = write(writer, &welcome).await {
            return reason;
        }
        if self.progress.sync_done {
            self.place.live();
        }
        let mut news = self.gateway.cluster.hub().node_news(self.node);
        let (frames, mut incoming) = mpsc::channel(FRAMES_AHEAD_MAX);
        // It may have ended before anybody listened.
        if !self.is_current() {
            return "the session ended as it began".to_owned();
        }
        // It ends with the stream or with this loop's end of the channel.
        tokio::spawn(read_frames(reader, frames));
        let owed_until = tokio::time::sleep(SYNC_MAX);
        tokio::pin!(owed_until);
        loop {
            tokio::select! {
                biased;
                frame = incoming.recv() => match frame {
                    None => return "the stream ended".to_owned(),
                    Some(Err(reason)) => return reason,
                    Some(Ok(frame)) => {
                        if let Err(reason) = self.on_frame(frame.kind, frame.body, writer).await {
                            return reason;
                        }
                    }
                },
                datagram = self.connection.read_datagram() => {
                    if let Err(reason) = self.on_datagram(datagram) {
                        return reason;
                    }
                }
                Some(committed) = self.progress.changes.join_next() => {
                    if let Err(reason) = self.on_committed(committed, writer).await {
                        return reason;
                    }
                }
                () = self.calls.wanted() => {
                    if let Err(reason) = write(writer, &v1::CallsWanted {}).await {
                        return reason;
                    }
                }
                changed = news.changed() => {
                    if changed.is_err() || !self.is_current() {
                        let reason = self.end_reason();
                        let refused = Refuse::new(v1::RefusedReason::NotInSession, reason);
                        return self.turn_away(refused, writer).await;
                    }
                }
                () = &mut owed_until, if !self.progress.sync_done => {
                    return format!("no complete report within {SYNC_MAX:?}");
                }
            }
        }
    }

    /// Whether the state still has this session, and the node is not silent.
    fn is_current(&self) -> bool {
        let snapshot = self.gateway.cluster.snapshot();
        snapshot.node(self.node).is_some_and(|record| {
            record.session.epoch == self.epoch
                && matches!(
                    record.node.status,
                    NodeStatus::Ready | NodeStatus::Initializing
                )
        })
    }

    /// Why the state does not have this session any more.
    fn end_reason(&self) -> EndReason {
        let snapshot = self.gateway.cluster.snapshot();
        match snapshot.node(self.node).map(|record| record.session.epoch) {
            Some(newer) if newer > self.epoch => {
                format!(
                    "session {newer}, which a daemon with this node's identity began, replaced it"
                )
            }
            _ => "the session is over as far as the state is concerned".to_owned(),
        }
    }

    async fn on_frame(
        &mut self,
        kind: u8,
        body: Bytes,
        writer: &mut FrameWriter,
    ) -> Result<(), EndReason> {
        match kind {
            v1::Heartbeat::KIND => {
                let ack = self.on_heartbeat(parse(kind, body)?)?;
                write(writer, &ack).await
            }
            v1::SyncPart::KIND => {
                let bytes = body.len();
                let part: v1::SyncPart = parse(kind, body)?;
                self.check_epoch(part.epoch)?;
                self.on_sync_part(part, bytes, writer).await
            }
            v1::FactsUpdate::KIND => {
                let update: v1::FactsUpdate = parse(kind, body)?;
                self.check_epoch(update.epoch)?;
                let facts = update.facts.ok_or("a facts update without facts")?;
                let facts = Arc::new(read_facts(&facts, self.node)?);
                let command = Command::NodeFacts {
                    node: self.node,
                    epoch: self.epoch,
                    facts,
                };
                let gateway = Arc::clone(self.gateway);
                self.begin(Change::Facts, async move {
                    Ok(gateway.cluster.change(command).await?.index)
                })
            }
            v1::WatchAck::KIND => {
                let ack: v1::WatchAck = parse(kind, body)?;
                self.check_epoch(ack.epoch)
            }
            other => Err(format!("frame kind {other} does not belong into a session")),
        }
    }

    fn on_heartbeat(&self, heartbeat: v1::Heartbeat) -> Result<v1::HeartbeatAck, EndReason> {
        self.check_epoch(heartbeat.epoch)?;
        self.gateway.heard.heard(Heard {
            node: self.node,
            epoch: self.epoch,
            at: Instant::now(),
            sent_boottime_ns: heartbeat.sent_boottime_ns,
        });
        Ok(heard(self.gateway, self.node, self.epoch, heartbeat.tick))
    }

    /// A heartbeat that travelled alone, answered alone.
    fn on_datagram(
        &self,
        datagram: Result<Bytes, quinn::ConnectionError>,
    ) -> Result<(), EndReason> {
        let datagram = datagram.map_err(|error| error.to_string())?;
        let heartbeat: v1::Heartbeat =
            from_datagram(datagram).map_err(|error| error.to_string())?;
        if heartbeat.epoch != self.epoch.0 {
            // Of another session of this connection; nothing keeps datagrams in order.
            return Ok(());
        }
        let ack = self.on_heartbeat(heartbeat)?;
        // What the way has no room for is as good as lost on it.
        let _ = self.connection.send_datagram(to_datagram(&ack));
        Ok(())
    }

    /// Answers a change that is in the log now, or is not.
    async fn on_committed(
        &mut self,
        committed: Result<(Change, Result<u64, ChangeError>), JoinError>,
        writer: &mut FrameWriter,
    ) -> Result<(), EndReason> {
        let (change, result) = committed.map_err(|error| error.to_string())?;
        self.progress.changing.remove(&change);
        let index = match result {
            Ok(index) => index,
            Err(error) => return Err(self.turn_away(error.into(), writer).await),
        };
        let epoch = self.epoch.0;
        match change {
            Change::Facts => write(writer, &v1::FactsAck { epoch, index }).await,
            Change::Report => {
                self.progress.sync_done = true;
                self.place.live();
                write(writer, &v1::SyncAck { epoch, index }).await
            }
        }
    }

    /// Tells the node why its session ends.
    async fn turn_away(&self, refused: Refuse, writer: &mut FrameWriter) -> EndReason {
        let reason = refused.message.clone();
        let _ = refused.send(self.gateway, writer).await;
        reason
    }

    /// Commits `work` beside the loop: heartbeats must not wait for it.
    fn begin(
        &mut self,
        change: Change,
        work: impl Future<Output = Result<u64, ChangeError>> + Send + 'static,
    ) -> Result<(), EndReason> {
        // One of each sort; a node waits for the answer before it says the next.
        if !self.progress.changing.insert(change) {
            return Err(format!("{change:?} before the last was acknowledged"));
        }
        self.progress
            .changes
            .spawn(async move { (change, work.await) });
        Ok(())
    }

    fn check_epoch(&self, epoch: u64) -> Result<(), EndReason> {
        if epoch == self.epoch.0 {
            return Ok(());
        }
        Err(format!(
            "the node speaks of epoch {epoch} in session {}",
            self.epoch
        ))
    }

    async fn on_sync_part(
        &mut self,
        part: v1::SyncPart,
        bytes: usize,
        writer: &mut FrameWriter,
    ) -> Result<(), EndReason> {
        let whole = match self.progress.parts.take(part, bytes) {
            Ok(None) => return Ok(()),
            Ok(Some(whole)) => whole,
            Err(reason) => {
                Box::pin(sync::count_rejected(self.gateway, self.node, self.epoch)).await;
                let refused = Refuse::new(v1::RefusedReason::Malformed, reason);
                return Err(self.turn_away(refused, writer).await);
            }
        };
        let facts = match &whole.facts {
            None => None,
            Some(facts) => Some(Arc::new(read_facts(facts, self.node)?)),
        };
        let reporter = Reporter {
            told: Told {
                node: self.node,
                epoch: self.epoch,
                via: self.since,
            },
            ours: self.history == History::Ours,
        };
        let gateway = Arc::clone(self.gateway);
        self.begin(
            Change::Report,
            sync::commit(gateway, reporter, whole, facts),
        )
    }
}
