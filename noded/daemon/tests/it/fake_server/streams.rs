//! The streams of a node, as the server serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use protocol_model::{AllocId, SpecHash};
use protocol_transport::{FrameReader, FrameWriter, Role, StreamKind};
use protocol_wire::kind::{FrameMessage, from_datagram, from_frame, to_datagram};
use protocol_wire::report::AllocReport;
use protocol_wire::{CALLS_ON_DEMAND_MIN, v1};
use tokio::sync::watch;

use super::{CAP, INCARNATION, Known, queries, tasks, write};

pub(super) async fn serve(
    connection: quinn::Connection,
    known: Arc<watch::Sender<Known>>,
    bulk: Arc<Mutex<Option<quinn::Connection>>>,
) {
    while let Ok((send, mut recv)) = connection.accept_bi().await {
        let kind = StreamKind::read(&mut recv, Role::Node).await.unwrap();
        let (writer, reader) = (FrameWriter::new(send, CAP), FrameReader::new(recv, CAP));
        let known = Arc::clone(&known);
        match kind {
            StreamKind::NodeSession => {
                drop(tokio::spawn(heartbeats(
                    connection.clone(),
                    Arc::clone(&known),
                )));
                drop(tokio::spawn(session(writer, reader, known)));
            }
            StreamKind::NodeUpdates => drop(tokio::spawn(updates(writer, reader, known))),
            StreamKind::NodeWatch => drop(tokio::spawn(watch_stream(writer, reader, known))),
            StreamKind::TaskApi => drop(tokio::spawn(tasks::serve(writer, reader, known))),
            StreamKind::NodeQuery => drop(tokio::spawn(queries::serve(writer, reader, known))),
            StreamKind::Bulk => {
                let (mut writer, mut reader) = (writer, reader);
                let frame = reader.expect().await.unwrap();
                let _: v1::AttachBulk = from_frame(frame.kind, frame.body).unwrap();
                // Nodes without a session go first: a test that asks for logs waits for ever.
                assert!(!known.borrow().synced.is_empty(), "not live yet");
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

/// Serves a session on which the node's connection for calls may be asked for.
async fn session(writer: FrameWriter, mut reader: FrameReader, known: Arc<watch::Sender<Known>>) {
    let frame = reader.expect().await.unwrap();
    let hello: v1::Hello = from_frame(frame.kind, frame.body).unwrap();
    let protocol = hello.protocol_max.min(known.borrow().protocol_max);
    let writer = Arc::new(tokio::sync::Mutex::new(writer));
    tokio::select! {
        () = messages(hello, protocol, &writer, reader, &known) => {}
        () = wanted_calls(protocol, &writer, &known) => {}
    }
}

async fn wanted_calls(
    protocol: u32,
    writer: &tokio::sync::Mutex<FrameWriter>,
    known: &watch::Sender<Known>,
) {
    let mut changes = known.subscribe();
    let mut asked = changes.borrow().calls_wanted;
    loop {
        let wanted = changes.wait_for(|known| known.calls_wanted > asked).await;
        let Ok(wanted) = wanted.map(|known| known.calls_wanted) else {
            return;
        };
        asked = wanted;
        if protocol >= CALLS_ON_DEMAND_MIN {
            write(&mut *writer.lock().await, &v1::CallsWanted {}).await;
        }
    }
}

async fn messages(
    hello: v1::Hello,
    protocol: u32,
    writer: &tokio::sync::Mutex<FrameWriter>,
    mut reader: FrameReader,
    known: &watch::Sender<Known>,
) {
    let mut epoch = 0;
    known.send_modify(|known| {
        known.index += 1;
        epoch = known.index;
        known.hellos.push(hello);
    });
    let welcome = v1::Welcome {
        epoch,
        protocol,
        heartbeat_interval_ms: 125,
        calm_interval_ms: 0,
        typical_interval_ms: 50,
        urgent_delay_ms: 5,
        retry_interval_ms: 250,
        applied: watermark(epoch),
        ..v1::Welcome::default()
    };
    write(&mut *writer.lock().await, &welcome).await;
    let mut reported = Vec::new();
    while let Ok(Some(frame)) = reader.read().await {
        match frame.kind {
            v1::SyncPart::KIND => {
                let part: v1::SyncPart = from_frame(frame.kind, frame.body).unwrap();
                take(known, epoch, part.allocs.clone(), Said::InSync);
                reported.extend(
                    part.allocs
                        .iter()
                        .map(|it| AllocId::from_slice(&it.alloc_id).unwrap()),
                );
                if part.last {
                    let reported = std::mem::take(&mut reported);
                    known.send_modify(|known| known.synced.push(reported));
                    write(
                        &mut *writer.lock().await,
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
                write(&mut *writer.lock().await, &v1::FactsAck { epoch, index }).await;
            }
            v1::WatchAck::KIND => {
                let ack: v1::WatchAck = from_frame(frame.kind, frame.body).unwrap();
                known.send_modify(|known| known.watch_acked = ack.index);
            }
            other => panic!("frame kind {other}"),
        }
    }
}

/// Heartbeats travel alone, and so do their answers.
async fn heartbeats(connection: quinn::Connection, known: Arc<watch::Sender<Known>>) {
    while let Ok(datagram) = connection.read_datagram().await {
        let beat: v1::Heartbeat = from_datagram(datagram).unwrap();
        known.send_modify(|known| known.heartbeats += 1);
        if known.borrow().mute {
            continue;
        }
        let ack = v1::HeartbeatAck {
            tick: beat.tick,
            confirmed_sent_boottime_ns: beat.sent_boottime_ns,
            ..v1::HeartbeatAck::default()
        };
        let _ = connection.send_datagram(to_datagram(&ack));
    }
}

/// Where a report was said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    InSync,
    InBatch,
}

/// Batches may overtake each other: what is newer says its session and its revision. Events of what
/// the sync said have the revision 0.
fn take(known: &watch::Sender<Known>, epoch: u64, reports: Vec<v1::AllocReport>, said: Said) {
    known.send_modify(|known| {
        for report in reports {
            let report = AllocReport::try_from(report).unwrap();
            let revision = if said == Said::InSync {
                0
            } else {
                report.revision
            };
            let mark = (epoch, revision);
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
        take(&known, batch.epoch, batch.allocs, Said::InBatch);
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
                root_key: present.root_key,
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
