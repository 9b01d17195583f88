//! Output as frames: which file each piece of it is from, and where in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol_api::client::StreamFrame;

use crate::failure::Failure;

/// A piece of a task's output. One without data only says that the stream lives.
#[derive(Default, Debug)]
pub(super) struct Frame {
    pub(super) data: Vec<u8>,
    file: String,
    offset: u64,
}

/// A place in a task's output, which goes over several files, numbered at the end of their names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    file: u64,
    offset: u64,
}

impl Frame {
    /// Where its data ends.
    pub(super) fn end(&self) -> Place {
        let number = self.file.rsplit('.').next();
        let length = u64::try_from(self.data.len()).unwrap_or(u64::MAX);
        Place {
            file: number
                .and_then(|number| number.parse().ok())
                .unwrap_or(u64::MAX),
            offset: self.offset.saturating_add(length),
        }
    }

    /// How much of its data is before `place`.
    pub(super) fn before(&self, place: Place) -> usize {
        let end = self.end();
        if end <= place {
            return self.data.len();
        }
        let beyond = match end.file == place.file {
            true => usize::try_from(end.offset - place.offset).unwrap_or(usize::MAX),
            false => usize::MAX,
        };
        self.data.len().saturating_sub(beyond)
    }
}

impl TryFrom<StreamFrame> for Frame {
    type Error = base64::DecodeError;

    fn try_from(frame: StreamFrame) -> Result<Self, Self::Error> {
        Ok(Self {
            data: STANDARD.decode(frame.data)?,
            file: frame.file,
            offset: u64::try_from(frame.offset).unwrap_or(0),
        })
    }
}

/// Takes frames out of a stream, which cuts them anywhere.
#[derive(Default, Debug)]
pub(super) struct Frames {
    rest: Vec<u8>,
}

impl Frames {
    /// The frames that `bytes` complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, Failure> {
        self.rest.extend_from_slice(bytes);
        let mut found = serde_json::Deserializer::from_slice(&self.rest).into_iter::<StreamFrame>();
        let mut frames = Vec::new();
        let mut whole = 0;
        loop {
            match found.next() {
                Some(Ok(frame)) => {
                    let frame = Frame::try_from(frame);
                    frames.push(frame.map_err(|error| Failure::Broken(error.to_string()))?);
                }
                Some(Err(error)) if !error.is_eof() => {
                    return Err(Failure::Json {
                        what: "a piece of output",
                        source: error,
                    });
                }
                Some(Err(_)) | None => break,
            }
            whole = found.byte_offset();
        }
        self.rest.drain(..whole);
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(file: &str, offset: u64, data: &str) -> Frame {
        Frame {
            data: data.as_bytes().to_vec(),
            file: file.to_owned(),
            offset,
        }
    }

    #[test]
    fn frames_are_whole_however_they_are_cut() {
        let text = br#"{"Data":"b25lCg==","File":"a.stdout.3","Offset":7}{}{"Data":"dHdv"}"#;
        for cut in 0..text.len() {
            let mut frames = Frames::default();
            let mut all = frames.take(&text[..cut]).expect("frames");
            all.extend(frames.take(&text[cut..]).expect("frames"));
            let data: Vec<&[u8]> = all.iter().map(|frame| frame.data.as_slice()).collect();
            assert_eq!(data, [&b"one\n"[..], b"", b"two"], "cut at {cut}");
            let end = Place {
                file: 3,
                offset: 11,
            };
            assert_eq!(all[0].end(), end);
        }
        Frames::default().take(b"<html>").expect_err("no frames");
    }

    #[test]
    fn a_piece_knows_what_of_it_is_before_a_place() {
        let place = frame("a.stdout.9", 10, "12345").end();
        assert_eq!(frame("a.stdout.8", 90, "abc").before(place), 3);
        assert_eq!(frame("a.stdout.9", 12, "abc").before(place), 3);
        assert_eq!(frame("a.stdout.9", 14, "abc").before(place), 1);
        assert_eq!(frame("a.stdout.9", 15, "abc").before(place), 0);
        assert_eq!(frame("a.stdout.10", 0, "abc").before(place), 0);
    }
}
