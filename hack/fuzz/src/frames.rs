//! Frames as they come from a stream: `u32 length | u8 kind | body`.

use bytes::BytesMut;
use protocol_transport::frame::{self, Decoded, Frame, FrameError};

use crate::Verdict;

/// Small, so that mutated lengths fall on both sides of it.
const BODY_BYTES_MAX: usize = 4096;

/// A stream of frames, looked at one by one and drained at once: both must agree.
pub fn frame(data: &[u8]) -> Verdict {
    let mut rest = data;
    let mut frames = Vec::new();
    let end = loop {
        match frame::decode(rest, BODY_BYTES_MAX) {
            Ok(Decoded::Complete { frame, consumed }) => {
                check_encoding(&frame, &rest[..consumed]);
                frames.push(frame);
                rest = &rest[consumed..];
            }
            Ok(Decoded::Incomplete { missing }) => {
                assert!(missing > 0, "an incomplete frame misses nothing");
                break Ok(());
            }
            Err(error) => break Err(error),
        }
    };
    check_draining(data, rest, &frames, end);
    match end {
        Ok(()) => Verdict::Understood,
        Err(error) => Verdict::refused(&error),
    }
}

fn check_encoding(frame: &Frame, bytes: &[u8]) {
    let mut written = BytesMut::new();
    frame::encode(frame.kind, &frame.body, BODY_BYTES_MAX, &mut written)
        .expect("what was read can be written");
    assert_eq!(written, bytes, "a frame is written as it was read");
}

fn check_draining(data: &[u8], rest: &[u8], frames: &[Frame], end: Result<(), FrameError>) {
    let mut buffer = BytesMut::from(data);
    match (frame::drain(&mut buffer, BODY_BYTES_MAX), end) {
        (Ok(drained), Ok(())) => {
            assert_eq!(drained, frames);
            assert_eq!(buffer, rest);
        }
        (Err(drained), Err(decoded)) => assert_eq!(drained, decoded),
        (drained, decoded) => panic!("drained {drained:?}, decoded {decoded:?}"),
    }
}
