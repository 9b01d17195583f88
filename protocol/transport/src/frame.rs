//! The frame codec: `u32 length | u8 kind | body`, length big-endian and counting kind and body.
//!
//! Pure: bytes in, frames out. A decoder is given a cap for the body and never asks for more
//! memory than a peer has sent plus one announced frame within that cap.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes before a body: the length and the kind.
pub const HEADER_BYTES: usize = 5;

/// The largest body that any use may allow.
pub const BODY_BYTES_LIMIT: usize = 64 * 1024 * 1024;

/// One message cut out of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What the body is; the meaning belongs to the stream's kind.
    pub kind: u8,
    pub body: Bytes,
}

/// What is wrong with bytes that should be a frame. Always the sender's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of length 0 has no kind")]
    NoKind,
    #[error("a frame body of {body_bytes} bytes is above the cap of {body_bytes_max}")]
    TooLarge {
        body_bytes: usize,
        body_bytes_max: usize,
    },
}

/// A frame's header, checked against a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub kind: u8,
    pub body_bytes: usize,
}

/// The result of looking for a frame at the start of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// A whole frame, which took `consumed` bytes of the input.
    Complete { frame: Frame, consumed: usize },
    /// At least `missing` more bytes are needed, and at least one.
    Incomplete { missing: usize },
}

impl Header {
    /// Reads the five bytes of a header.
    ///
    /// # Errors
    /// When the length is 0 or announces a body above `body_bytes_max`.
    pub fn decode(bytes: [u8; HEADER_BYTES], body_bytes_max: usize) -> Result<Self, FrameError> {
        let [a, b, c, d, kind] = bytes;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let body_bytes = length.checked_sub(1).ok_or(FrameError::NoKind)?;
        check_size(body_bytes, body_bytes_max)?;
        Ok(Self { kind, body_bytes })
    }

    /// The header's bytes.
    ///
    /// # Errors
    /// When the body is above `body_bytes_max`: our own fault, found before anything is sent.
    pub fn encode(self, body_bytes_max: usize) -> Result<[u8; HEADER_BYTES], FrameError> {
        check_size(self.body_bytes, body_bytes_max)?;
        // The limit is far below u32::MAX.
        let length = u32::try_from(self.body_bytes + 1).map_err(|_| FrameError::TooLarge {
            body_bytes: self.body_bytes,
            body_bytes_max,
        })?;
        let [a, b, c, d] = length.to_be_bytes();
        Ok([a, b, c, d, self.kind])
    }
}

fn check_size(body_bytes: usize, body_bytes_max: usize) -> Result<(), FrameError> {
    let body_bytes_max = body_bytes_max.min(BODY_BYTES_LIMIT);
    if body_bytes > body_bytes_max {
        return Err(FrameError::TooLarge {
            body_bytes,
            body_bytes_max,
        });
    }
    Ok(())
}

/// Looks for one frame at the start of `input`.
///
/// # Errors
/// When the header is malformed or announces a body above the cap; nothing after it can be
/// trusted then, because its end is not known.
pub fn decode(input: &[u8], body_bytes_max: usize) -> Result<Decoded, FrameError> {
    let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(Decoded::Incomplete {
            missing: HEADER_BYTES - input.len(),
        });
    };
    let header = Header::decode(*header, body_bytes_max)?;
    let Some(body) = rest.get(..header.body_bytes) else {
        return Ok(Decoded::Incomplete {
            missing: header.body_bytes - rest.len(),
        });
    };
    let frame = Frame {
        kind: header.kind,
        body: Bytes::copy_from_slice(body),
    };
    Ok(Decoded::Complete {
        frame,
        consumed: HEADER_BYTES + header.body_bytes,
    })
}

/// Appends one frame to `output`.
///
/// # Errors
/// When the body is above the cap; `output` is unchanged then.
pub fn encode(
    kind: u8,
    body: &[u8],
    body_bytes_max: usize,
    output: &mut BytesMut,
) -> Result<(), FrameError> {
    let header = Header {
        kind,
        body_bytes: body.len(),
    }
    .encode(body_bytes_max)?;
    output.reserve(HEADER_BYTES + body.len());
    output.put_slice(&header);
    output.put_slice(body);
    Ok(())
}

/// Takes all whole frames off the front of `buffer`, leaving what is incomplete.
///
/// # Errors
/// As [`decode`]; frames before the malformed one are lost with it.
pub fn drain(buffer: &mut BytesMut, body_bytes_max: usize) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Vec::new();
    while let Some((header, _)) = buffer.split_first_chunk::<HEADER_BYTES>() {
        let header = Header::decode(*header, body_bytes_max)?;
        if buffer.len() < HEADER_BYTES + header.body_bytes {
            break;
        }
        buffer.advance(HEADER_BYTES);
        frames.push(Frame {
            kind: header.kind,
            body: buffer.split_to(header.body_bytes).freeze(),
        });
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAP: usize = 1024;

    #[test]
    fn the_bytes_of_a_frame_are_frozen() {
        let mut output = BytesMut::new();
        encode(7, b"abc", CAP, &mut output).expect("encodes");
        assert_eq!(&output[..], [0, 0, 0, 4, 7, b'a', b'b', b'c']);
    }

    #[test]
    fn a_length_of_zero_is_refused() {
        assert_eq!(decode(&[0, 0, 0, 0, 9], CAP), Err(FrameError::NoKind));
    }

    #[test]
    fn an_announced_body_above_the_cap_is_refused_before_it_arrives() {
        let error = decode(&[0, 0, 4, 2, 1], CAP).expect_err("must refuse");
        assert_eq!(
            error,
            FrameError::TooLarge {
                body_bytes: 1025,
                body_bytes_max: CAP
            }
        );
    }

    #[test]
    fn no_use_may_lift_the_cap_above_the_limit() {
        let error = decode(&[0xff, 0xff, 0xff, 0xff, 1], usize::MAX).expect_err("must refuse");
        assert!(matches!(error, FrameError::TooLarge { .. }), "{error:?}");
    }

    #[test]
    fn an_oversized_body_is_not_encoded() {
        let mut output = BytesMut::new();
        encode(1, &[0; CAP + 1], CAP, &mut output).expect_err("must refuse");
        assert!(output.is_empty());
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(
            frames in prop::collection::vec(
                (any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)),
                0..8,
            ),
            split in 0usize..2000,
        ) {
            let mut bytes = BytesMut::new();
            for (kind, body) in &frames {
                encode(*kind, body, CAP, &mut bytes).expect("encodes");
            }
            let tail = bytes.split_off(split.min(bytes.len()));
            let mut found = drain(&mut bytes, CAP).expect("well formed");
            bytes.unsplit(tail);
            found.extend(drain(&mut bytes, CAP).expect("well formed"));
            let expected: Vec<Frame> = frames
                .into_iter()
                .map(|(kind, body)| Frame { kind, body: body.into() })
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert!(bytes.is_empty());
        }

        #[test]
        fn any_bytes_decode_without_panic_and_in_bounds(
            input in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            match decode(&input, CAP) {
                Ok(Decoded::Complete { frame, consumed }) => {
                    prop_assert!(consumed <= input.len());
                    prop_assert_eq!(consumed, HEADER_BYTES + frame.body.len());
                }
                Ok(Decoded::Incomplete { missing }) => {
                    prop_assert!(missing > 0 && missing <= CAP + HEADER_BYTES);
                }
                Err(_) => prop_assert!(input.len() >= HEADER_BYTES),
            }
        }
    }
}
