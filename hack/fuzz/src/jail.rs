//! Frames between noded and the children that handle foreign bytes.

use noded_jail::frame::{self, FrameError, Parsed};
use noded_jail::{Render, Rendering, Report};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Verdict;

/// Small, so that mutated lengths fall on both sides of it.
const LIMIT: usize = 4096;

/// A stream of frames, read as a child's reports and as a request. The reader that blocks and the
/// one that does not agree.
pub fn jail_frame(data: &[u8]) -> Verdict {
    let mut rest = data;
    let mut verdict = None;
    let end = loop {
        match frame::parse(rest, LIMIT) {
            Ok(Parsed::Whole { content, consumed }) => {
                let read = frame::read(&mut &*rest, LIMIT).expect("the same frame");
                assert_eq!(read.as_deref(), Some(content));
                let seen = content_verdict(content);
                verdict = Some(verdict.unwrap_or(seen));
                rest = &rest[consumed..];
            }
            Ok(Parsed::Partial { missing }) => {
                assert!(missing > 0, "an incomplete frame misses nothing");
                let read = frame::read(&mut &*rest, LIMIT);
                assert_eq!(rest.is_empty(), matches!(read, Ok(None)));
                break None;
            }
            Err(error) => {
                let read = frame::read(&mut &*rest, LIMIT).expect_err("the same error");
                assert_eq!(read.to_string(), error.to_string());
                break Some(error);
            }
        }
    };
    match (verdict, end) {
        (Some(verdict), _) => verdict,
        (None, Some(error)) => Verdict::refused(&error),
        (None, None) => Verdict::refused(&FrameError::Torn),
    }
}

fn content_verdict(content: &[u8]) -> Verdict {
    let report = same_again::<Report<Rendering>>(content);
    let request = same_again::<Render>(content);
    match (report, request) {
        (Ok(()), _) | (_, Ok(())) => Verdict::Understood,
        (Err(of_report), Err(of_request)) => {
            Verdict::refused(&of_report);
            Verdict::refused(&of_request)
        }
    }
}

fn same_again<T: Serialize + DeserializeOwned>(content: &[u8]) -> Result<(), FrameError> {
    let value: T = frame::decode(content)?;
    // Maps may shrink and numbers may be written shorter, never the other way round.
    let written = frame::encode(&value, LIMIT).expect("it can be written");
    let Ok(Parsed::Whole { content, .. }) = frame::parse(&written, LIMIT) else {
        panic!("the written bytes are no frame");
    };
    let again: T = frame::decode(content).expect("the written bytes are read");
    let twice = frame::encode(&again, LIMIT).expect("and written");
    assert_eq!(twice, written);
    Ok(())
}
