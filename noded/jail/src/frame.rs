//! The bytes on descriptors 0 and 1.
//!
//! ```text
//!  +---------------------+-------------+------------------+
//!  | length: u32 LE      | version: u8 | body: postcard   |
//!  | of version and body |             |                  |
//!  +---------------------+-------------+------------------+
//! ```

use std::io::Read;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of requests and reports.
pub const VERSION: u8 = 1;

/// Bytes of the length.
const LENGTH_BYTES: usize = 4;

/// Bytes that are no frame, or not ours.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The body and its version are longer than allowed.
    #[error("a frame of {bytes} bytes; the limit is {limit}")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// No version.
    #[error("an empty frame")]
    Empty,
    /// Another release wrote it.
    #[error(
        "a frame of version {version}, not {VERSION}: noded and noded-jail are not of one release"
    )]
    Version {
        /// Its version.
        version: u8,
    },
    /// The body is not what was expected.
    #[error("the frame's content")]
    Body(#[source] postcard::Error),
    /// Bytes behind the body.
    #[error("{bytes} bytes behind the frame's content")]
    Rest {
        /// Their number.
        bytes: usize,
    },
    /// The stream ended within a frame.
    #[error("the stream ended within a frame")]
    Torn,
    /// The stream could not be read.
    #[error("the stream cannot be read")]
    Read(#[source] std::io::Error),
}

/// The beginning of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole frame: version and body.
    Whole {
        /// Its content, for [`decode`].
        content: &'a [u8],
        /// Bytes of the stream that it took.
        consumed: usize,
    },
    /// More bytes are needed.
    Partial {
        /// At least this many.
        missing: usize,
    },
}

/// A value as a frame.
///
/// # Errors
/// It is larger than `limit`, or cannot be written as postcard.
pub fn encode<T: Serialize>(value: &T, limit: usize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; LENGTH_BYTES];
    bytes.push(VERSION);
    let mut bytes = postcard::to_extend(value, bytes).map_err(FrameError::Body)?;
    let length = bytes.len() - LENGTH_BYTES;
    let too_large = FrameError::TooLarge {
        bytes: length,
        limit,
    };
    match u32::try_from(length) {
        Ok(short) if length <= limit => {
            bytes[..LENGTH_BYTES].copy_from_slice(&short.to_le_bytes());
            Ok(bytes)
        }
        _ => Err(too_large),
    }
}

/// The first frame of `bytes`, if they hold all of it.
///
/// # Errors
/// It is empty or larger than `limit`.
pub fn parse(bytes: &[u8], limit: usize) -> Result<Parsed<'_>, FrameError> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        let missing = LENGTH_BYTES - bytes.len();
        return Ok(Parsed::Partial { missing });
    };
    let length = length_of(*length, limit)?;
    Ok(match rest.get(..length) {
        Some(content) => Parsed::Whole {
            content,
            consumed: LENGTH_BYTES + length,
        },
        None => Parsed::Partial {
            missing: length - rest.len(),
        },
    })
}

/// The value in a frame's content.
///
/// # Errors
/// Another version, or not this value.
pub fn decode<T: DeserializeOwned>(content: &[u8]) -> Result<T, FrameError> {
    let (version, body) = content.split_first().ok_or(FrameError::Empty)?;
    if *version != VERSION {
        return Err(FrameError::Version { version: *version });
    }
    let (value, rest) = postcard::take_from_bytes(body).map_err(FrameError::Body)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(FrameError::Rest { bytes: rest.len() })
    }
}

/// Reads the content of one frame. Blocks. `None`: the stream ended before it.
///
/// # Errors
/// The stream cannot be read or ends within the frame; the frame is empty or larger than `limit`.
pub fn read(stream: &mut impl Read, limit: usize) -> Result<Option<Vec<u8>>, FrameError> {
    let mut length = Vec::new();
    let mut first = stream.by_ref().take(LENGTH_BYTES as u64);
    first.read_to_end(&mut length).map_err(FrameError::Read)?;
    if length.is_empty() {
        return Ok(None);
    }
    let length = <[u8; LENGTH_BYTES]>::try_from(length).map_err(|_| FrameError::Torn)?;
    let length = length_of(length, limit)?;
    let mut content = Vec::with_capacity(length);
    let mut rest = stream.take(length as u64);
    rest.read_to_end(&mut content).map_err(FrameError::Read)?;
    if content.len() == length {
        Ok(Some(content))
    } else {
        Err(FrameError::Torn)
    }
}

fn length_of(bytes: [u8; LENGTH_BYTES], limit: usize) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(bytes) as usize;
    match length {
        0 => Err(FrameError::Empty),
        bytes if bytes > limit => Err(FrameError::TooLarge { bytes, limit }),
        length => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let bytes = encode(&("hello", 7_u32), 64).expect("short enough");
        for cut in 0..bytes.len() {
            let parsed = parse(&bytes[..cut], 64).expect("a beginning");
            assert!(matches!(parsed, Parsed::Partial { .. }), "{cut}");
        }
        let Parsed::Whole { content, consumed } = parse(&bytes, 64).expect("a frame") else {
            panic!("not whole");
        };
        assert_eq!(consumed, bytes.len());
        let again: (String, u32) = decode(content).expect("the same");
        assert_eq!(again, ("hello".to_owned(), 7));
        let read = read(&mut bytes.as_slice(), 64).expect("readable");
        assert_eq!(read.as_deref(), Some(content));
    }

    #[test]
    fn a_frame_that_is_wrong_is_refused_by_its_reason() {
        assert!(matches!(read(&mut &[][..], 64), Ok(None)));
        assert!(matches!(read(&mut &[1, 0][..], 64), Err(FrameError::Torn)));
        let torn = [2, 0, 0, 0, 1];
        assert!(matches!(read(&mut &torn[..], 64), Err(FrameError::Torn)));
        assert!(matches!(parse(&[0; 4], 64), Err(FrameError::Empty)));
        let large = parse(&[65, 0, 0, 0], 64).expect_err("too large");
        assert_eq!(large.to_string(), "a frame of 65 bytes; the limit is 64");
        assert!(matches!(
            encode(&[0_u8; 64].as_slice(), 64),
            Err(FrameError::TooLarge { bytes: 66, .. })
        ));
        let other = decode::<u8>(&[2, 0]).expect_err("another version");
        assert!(other.to_string().contains("not of one release"), "{other}");
        assert!(matches!(
            decode::<u8>(&[1, 0, 0]),
            Err(FrameError::Rest { bytes: 1 })
        ));
    }
}
