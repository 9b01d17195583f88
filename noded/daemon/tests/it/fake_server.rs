//! A server that welcomes one node, tells it what to run, and remembers what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol_model::{AllocId, Allocation, Job, SpecHash};
use protocol_transport::ca::{CertificateAuthority, CertificateRequest};
use protocol_transport::files::{write_certificate, write_key};
use protocol_transport::{
    Endpoint, EndpointConfig, FrameReader, FrameWriter, Identity, Region, Role, StreamKind,
};
use protocol_wire::kind::{FrameMessage, from_frame, to_frame};
use protocol_wire::report::AllocReport;
use protocol_wire::v1;
use tokio::sync::watch;

const CAP: usize = 16 * 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 3600);
const INCARNATION: [u8; 16] = [7; 16];
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What the server wants and knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) index: u64,
    pub(crate) wanted: BTreeMap<AllocId, (Allocation, Arc<Job>)>,
    pub(crate) reports: BTreeMap<AllocId, AllocReport>,
    /// Session and revision of each of them.
    marks: BTreeMap<AllocId, (u64, u64)>,
    pub(crate) hellos: Vec<v1::Hello>,
    pub(crate) synced: Vec<Vec<AllocId>>,
    pub(crate) watch_acked: u64,
    pub(crate) heartbeats: u64,
    /// Facts that came outside of a Hello.
    pub(crate) facts: Vec<protocol_model::Node>,
}

#[derive(Debug)]
pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    known: Arc<watch::Sender<Known>>,
    bulk: Arc<Mutex<Option<quinn::Connection>>>,
    connections: Arc<Mutex<Vec<quinn::Connection>>>,
    _endpoint: Endpoint,
}

fn identity(
    authority: &CertificateAuthority,
    role: Role,
) -> (Identity, protocol_transport::ca::CertifiedPem) {
    let request = CertificateRequest {
        role,
        region: Region::global(),
        common_name: format!("{role}-1"),
        names: vec!["localhost".to_owned()],
        addresses: Vec::new(),
        validity: DAY,
    };
    let issued = authority.issue(&request).unwrap();
    let identity = Identity::from_pem(&authority.pem().certificate, &issued).unwrap();
    (identity, issued)
}

impl FakeServer {
    /// Listens on the loopback address, and writes a node's certificates into `tls`.
    pub(crate) fn start(tls: &Path) -> Self {
        let authority = CertificateAuthority::create("test", DAY).unwrap();
        let (own, _) = identity(&authority, Role::Server);
        let (_, node) = identity(&authority, Role::Node);
        write_certificate(&tls.join("ca.pem"), &authority.pem().certificate).unwrap();
        write_certificate(&tls.join("node.pem"), &node.certificate).unwrap();
        write_key(&tls.join("node-key.pem"), &node.key).unwrap();
        let endpoint = Endpoint::bind(&EndpointConfig::loopback(own)).unwrap();
        let mut listener = endpoint.listen();
        let (known, _) = watch::channel(Known {
            index: 10,
            ..Known::default()
        });
        let server = Self {
            address: endpoint.local_address().unwrap(),
            known: Arc::new(known),
            bulk: Arc::default(),
            connections: Arc::default(),
            _endpoint: endpoint,
        };
        let (known, bulk) = (Arc::clone(&server.known), Arc::clone(&server.bulk));
        let connections = Arc::clone(&server.connections);
        tokio::spawn(async move {
            while let Some(peer) = listener.accept().await {
                assert_eq!(peer.identity.role, Role::Node);
                connections.lock().unwrap().push(peer.connection.clone());
                tokio::spawn(serve(
                    peer.connection,
                    Arc::clone(&known),
                    Arc::clone(&bulk),
                ));
            }
        });
        server
    }

    /// Wants an allocation, new or changed.
    pub(crate) fn want(&self, mut alloc: Allocation, job: &Arc<Job>) {
        self.known.send_modify(|known| {
            known.index += 1;
            alloc.alloc_modify_index = known.index;
            known.wanted.insert(alloc.id, (alloc, Arc::clone(job)));
        });
    }

    /// Does not know an allocation any more.
    pub(crate) fn forget(&self, alloc: AllocId) {
        self.known.send_modify(|known| {
            known.index += 1;
            known.wanted.remove(&alloc);
        });
    }

    /// What is known now.
    pub(crate) fn known(&self) -> Known {
        self.known.borrow().clone()
    }

    /// Waits until what is known fits.
    pub(crate) async fn until(&self, what: &str, fits: impl FnMut(&Known) -> bool) -> Known {
        let mut known = self.known.subscribe();
        let waited = tokio::time::timeout(PATIENCE, known.wait_for(fits)).await;
        match waited {
            Ok(found) => found.unwrap().clone(),
            Err(_) => panic!(
                "never happened: {what}; known: {:#?}",
                self.known.borrow().reports
            ),
        }
    }

    /// The connections of the node break.
    pub(crate) fn cut(&self) {
        for connection in std::mem::take(&mut *self.connections.lock().unwrap()) {
            connection.close(0_u32.into(), b"cut");
        }
    }

    /// The node is dead: calls wait for the connection of the next one.
    pub(crate) fn hang_up(&self) {
        self.bulk.lock().unwrap().take();
    }

    /// Calls the node, about an allocation or about itself; answers everything until `end`, or the
    /// error.
    pub(crate) async fn call(
        &self,
        alloc: impl Into<Option<AllocId>>,
        request: v1::node_request::Request,
    ) -> Result<Vec<v1::node_reply::Reply>, v1::NodeError> {
        let (mut writer, mut reader) = self.open(alloc, request).await;
        writer.finish().ok();
        let mut replies = Vec::new();
        while let Some(reply) = next(&mut reader).await {
            match reply {
                v1::node_reply::Reply::End(_) => return Ok(replies),
                v1::node_reply::Reply::Error(error) => return Err(error),
                v1::node_reply::Reply::Heartbeat(_) => {}
                reply => replies.push(reply),
            }
        }
        panic!("the call ended without an end: {replies:?}");
    }

    /// Opens a call and leaves it to the test.
    pub(crate) async fn open(
        &self,
        alloc: impl Into<Option<AllocId>>,
        request: v1::node_request::Request,
    ) -> (FrameWriter, FrameReader) {
        let connection = tokio::time::timeout(PATIENCE, async {
            loop {
                let connection = self.bulk.lock().unwrap().clone();
                match connection {
                    Some(connection) if connection.close_reason().is_none() => return connection,
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
        let connection = connection.await.expect("a connection for calls");
        let (mut send, recv) = connection.open_bi().await.unwrap();
        StreamKind::NodeCall.write(&mut send).await.unwrap();
        let mut writer = FrameWriter::new(send, CAP);
        let alloc: Option<AllocId> = alloc.into();
        let alloc_id = alloc.map(|alloc| alloc.as_bytes().to_vec());
        let message = v1::NodeRequest {
            alloc_id: alloc_id.unwrap_or_default().into(),
            request: Some(request),
        };
        write(&mut writer, &message).await;
        (writer, FrameReader::new(recv, CAP))
    }

    /// The output of a task, as a call reads it.
    pub(crate) async fn logs(&self, alloc: AllocId, task: &str, stderr: bool) -> String {
        let request = v1::LogsRequest {
            task: task.to_owned(),
            stderr,
            ..v1::LogsRequest::default()
        };
        let replies = self
            .call(alloc, v1::node_request::Request::Logs(request))
            .await
            .unwrap();
        text_of(&replies)
    }
}

pub(crate) async fn next(reader: &mut FrameReader) -> Option<v1::node_reply::Reply> {
    let frame = tokio::time::timeout(PATIENCE, reader.read())
        .await
        .expect("a reply")
        .ok()??;
    from_frame::<v1::NodeReply>(frame.kind, frame.body)
        .unwrap()
        .reply
}

pub(crate) fn text_of(replies: &[v1::node_reply::Reply]) -> String {
    let bytes: Vec<u8> = replies
        .iter()
        .flat_map(|reply| match reply {
            v1::node_reply::Reply::Chunk(chunk) => chunk.data.to_vec(),
            other => panic!("no chunk: {other:?}"),
        })
        .collect();
    String::from_utf8(bytes).unwrap()
}

pub(crate) async fn write<M: FrameMessage>(writer: &mut FrameWriter, message: &M) {
    let (kind, body) = to_frame(message);
    // A peer that left is seen by whoever waits for it.
    let _ = writer.write(kind, body).await;
}

async fn serve(
    connection: quinn::Connection,
    known: Arc<watch::Sender<Known>>,
    bulk: Arc<Mutex<Option<quinn::Connection>>>,
) {
    while let Ok((send, mut recv)) = connection.accept_bi().await {
        let kind = StreamKind::read(&mut recv, Role::Node).await.unwrap();
        let (writer, reader) = (FrameWriter::new(send, CAP), FrameReader::new(recv, CAP));
        let known = Arc::clone(&known);
        match kind {
            StreamKind::NodeSession => drop(tokio::spawn(session(writer, reader, known))),
            StreamKind::NodeUpdates => drop(tokio::spawn(updates(writer, reader, known))),
            StreamKind::NodeWatch => drop(tokio::spawn(watch_stream(writer, reader, known))),
            StreamKind::Bulk => {
                let (mut writer, mut reader) = (writer, reader);
                let frame = reader.expect().await.unwrap();
                let _: v1::AttachBulk = from_frame(frame.kind, frame.body).unwrap();
                *bulk.lock().unwrap() = Some(connection.clone());
                write(&mut writer, &v1::Attached {}).await;
            }
            other => panic!("{other}"),
        }
    }
}

fn watermark(index: u64) -> Option<v1::Watermark> {
    Some(v1::Watermark {
        incarnation: INCARNATION.to_vec().into(),
        index,
    })
}

async fn session(
    mut writer: FrameWriter,
    mut reader: FrameReader,
    known: Arc<watch::Sender<Known>>,
) {
    let frame = reader.expect().await.unwrap();
    let hello: v1::Hello = from_frame(frame.kind, frame.body).unwrap();
    let mut epoch = 0;
    known.send_modify(|known| {
        known.index += 1;
        epoch = known.index;
        known.hellos.push(hello);
    });
    let welcome = v1::Welcome {
        epoch,
        protocol: 1,
        heartbeat_interval_ms: 125,
        typical_interval_ms: 50,
        urgent_delay_ms: 5,
        retry_interval_ms: 250,
        applied: watermark(epoch),
        ..v1::Welcome::default()
    };
    write(&mut writer, &welcome).await;
    let mut reported = Vec::new();
    while let Ok(Some(frame)) = reader.read().await {
        match frame.kind {
            v1::SyncPart::KIND => {
                let part: v1::SyncPart = from_frame(frame.kind, frame.body).unwrap();
                take(&known, epoch, part.allocs.clone());
                reported.extend(
                    part.allocs
                        .iter()
                        .map(|it| AllocId::from_slice(&it.alloc_id).unwrap()),
                );
                if part.last {
                    let reported = std::mem::take(&mut reported);
                    known.send_modify(|known| known.synced.push(reported));
                    write(
                        &mut writer,
                        &v1::SyncAck {
                            epoch,
                            index: epoch,
                        },
                    )
                    .await;
                }
            }
            v1::FactsUpdate::KIND => {
                let update: v1::FactsUpdate = from_frame(frame.kind, frame.body).unwrap();
                assert_eq!(update.epoch, epoch);
                let facts = serde_json::from_slice(&update.facts.unwrap().json).unwrap();
                known.send_modify(|known| known.facts.push(facts));
                let index = epoch;
                write(&mut writer, &v1::FactsAck { epoch, index }).await;
            }
            v1::Heartbeat::KIND => {
                let beat: v1::Heartbeat = from_frame(frame.kind, frame.body).unwrap();
                known.send_modify(|known| known.heartbeats += 1);
                let ack = v1::HeartbeatAck {
                    tick: beat.tick,
                    ..v1::HeartbeatAck::default()
                };
                write(&mut writer, &ack).await;
            }
            v1::WatchAck::KIND => {
                let ack: v1::WatchAck = from_frame(frame.kind, frame.body).unwrap();
                known.send_modify(|known| known.watch_acked = ack.index);
            }
            other => panic!("frame kind {other}"),
        }
    }
}

/// Batches may overtake each other: what is newer says its session and its revision.
fn take(known: &watch::Sender<Known>, epoch: u64, reports: Vec<v1::AllocReport>) {
    known.send_modify(|known| {
        for report in reports {
            let report = AllocReport::try_from(report).unwrap();
            let mark = (epoch, report.revision);
            if known.marks.get(&report.id).is_none_or(|held| *held <= mark) {
                known.marks.insert(report.id, mark);
                known.reports.insert(report.id, report);
            }
        }
    });
}

async fn updates(
    mut writer: FrameWriter,
    mut reader: FrameReader,
    known: Arc<watch::Sender<Known>>,
) {
    let frame = reader.expect().await.unwrap();
    let _: v1::StreamHello = from_frame(frame.kind, frame.body).unwrap();
    while let Ok(Some(frame)) = reader.read().await {
        let batch: v1::StatusBatch = from_frame(frame.kind, frame.body).unwrap();
        let ack = v1::BatchAck {
            class: batch.class,
            seq: batch.seq,
            index: known.borrow().index,
            results: vec![v1::ItemResult::Applied.into(); batch.allocs.len()],
        };
        take(&known, batch.epoch, batch.allocs);
        write(&mut writer, &ack).await;
    }
}

async fn watch_stream(
    mut writer: FrameWriter,
    mut reader: FrameReader,
    known: Arc<watch::Sender<Known>>,
) {
    let frame = reader.expect().await.unwrap();
    let _: v1::StreamHello = from_frame(frame.kind, frame.body).unwrap();
    let mut changes = known.subscribe();
    let mut specs: BTreeSet<SpecHash> = BTreeSet::new();
    let mut told: BTreeMap<AllocId, u64> = BTreeMap::new();
    let now = changes.borrow_and_update().clone();
    let map = v1::WatchMap {
        at: watermark(now.index),
        part: 0,
        last: true,
        allocs: now
            .wanted
            .values()
            .map(|(alloc, _)| v1::AllocVersion {
                alloc_id: alloc.id.as_bytes().to_vec().into(),
                version: alloc.alloc_modify_index,
            })
            .collect(),
    };
    write(&mut writer, &map).await;
    let mut index = now.index;
    let mut present = now;
    loop {
        let mut delta = v1::WatchDelta {
            previous_index: index,
            ..v1::WatchDelta::default()
        };
        for (alloc, job) in present.wanted.values() {
            let hash = job.spec_hash();
            if told.insert(alloc.id, alloc.alloc_modify_index) == Some(alloc.alloc_modify_index) {
                continue;
            }
            if specs.insert(hash) {
                let json = serde_json::to_vec(&**job).unwrap();
                delta.specs.push(v1::JobSpec {
                    hash: hash.0.to_vec().into(),
                    json_zstd: zstd::encode_all(json.as_slice(), 1).unwrap().into(),
                });
            }
            delta.changed.push(v1::DesiredAlloc {
                alloc_id: alloc.id.as_bytes().to_vec().into(),
                version: alloc.alloc_modify_index,
                spec_hash: hash.0.to_vec().into(),
                json: serde_json::to_vec(alloc).unwrap().into(),
            });
        }
        let gone: Vec<AllocId> = told
            .keys()
            .filter(|id| !present.wanted.contains_key(id))
            .copied()
            .collect();
        for id in gone {
            told.remove(&id);
            delta.removed.push(id.as_bytes().to_vec().into());
        }
        if !delta.changed.is_empty() || !delta.removed.is_empty() {
            index = present.index.max(index + 1);
            delta.index = index;
            write(&mut writer, &delta).await;
        }
        if changes.changed().await.is_err() {
            return;
        }
        present = changes.borrow_and_update().clone();
    }
}
