//! Frozen bytes: one file per message that travels in a frame of its own, every field set, and one
//! per request of a node. A test that fails here means that a server and a node one release apart
//! would not understand each other: give the changed field a new number, and keep the old file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bytes::Bytes;
use protocol_wire::kind::{FrameMessage, KINDS, MessageError, from_frame, to_frame};
use protocol_wire::v1;

use crate::samples::{Sample, samples};

#[expect(clippy::disallowed_methods, reason = "a test may read its own files")]
/// The frozen bytes. `UPDATE_GOLDEN=1` writes those that are missing, and never changes one.
/// A file is the frame's kind byte and its body: some messages have nothing but their kind.
fn frozen(sample: &Sample) -> Bytes {
    let kind = sample.kind;
    let name = KINDS
        .iter()
        .find(|(known, _)| *known == kind)
        .map_or("", |(_, name)| *name);
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let dot = if sample.variant.is_empty() { "" } else { "." };
    let path = folder.join(format!("{kind:03}_{name}{dot}{}.bin", sample.variant));
    if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).expect("the folder");
        std::fs::write(&path, [&[kind], sample.bytes.as_ref()].concat()).expect("the file");
    }
    let frame = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(frame[0], kind);
    Bytes::from(frame).slice(1..)
}

#[test]
fn every_message_has_a_sample() {
    let sampled: BTreeSet<u8> = samples().map(|sample| sample.kind).collect();
    let missing: Vec<_> = KINDS
        .iter()
        .filter(|(kind, _)| !sampled.contains(kind))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn messages_are_written_as_they_were_frozen() {
    for sample in samples() {
        assert_eq!(
            sample.bytes,
            frozen(&sample),
            "kind {} {}",
            sample.kind,
            sample.variant
        );
    }
}

#[test]
fn frozen_messages_are_still_read() {
    for sample in samples() {
        let frozen = frozen(&sample);
        assert!((sample.is_read_from)(frozen), "kind {}", sample.kind);
    }
}

#[test]
fn a_frame_of_another_kind_is_refused() {
    let (_, body) = to_frame(&v1::WatchAck { epoch: 1, index: 2 });
    let refused = from_frame::<v1::WatchAck>(v1::Heartbeat::KIND, body);
    let got = v1::Heartbeat::KIND;
    assert_eq!(
        refused,
        Err(MessageError::Unexpected {
            expected: "WatchAck",
            got
        })
    );
}
