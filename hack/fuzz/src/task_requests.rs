//! The bytes that a task sends on its socket: requests, one after the other.
//!
//! The node's check and a second parser read each head. A head that the check takes ends at the
//! same byte for both, and has the same method, target, version and headers for both: no request
//! can hide in another one.

use httparse::{EMPTY_HEADER, Request, Status};
use noded_core::task_api::head::{self, Framing};

use crate::Verdict;

/// The most headers that fit into a head: each takes four bytes at least.
const HEADERS_MAX: usize = head::HEAD_BYTES_MAX / 4;

/// Requests with their bodies, as far as the node looks at them.
pub fn task_request(data: &[u8]) -> Verdict {
    let mut rest = data;
    let mut verdict = Verdict::Refused("there is no whole head".to_owned());
    while let Some(end) = head::end(rest) {
        let (bytes, behind) = rest.split_at(end);
        let framing = match head::check(bytes) {
            Ok(framing) => framing,
            Err(error) => return Verdict::refused_with(error.to_string()),
        };
        let halves = [bytes.len() / 3, bytes.len() / 2, bytes.len() - 1];
        for begun in halves.map(|length| &bytes[..length]) {
            assert_eq!(head::check_beginning(begun, 0), Ok(()), "a beginning of it");
            let again = head::end_behind(bytes, begun.len());
            assert_eq!(again, Some(end), "in two pieces");
        }
        compare(bytes, framing);
        verdict = Verdict::Understood;
        let Framing::Sized(length) = framing else {
            break;
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        rest = behind.get(length..).unwrap_or_default();
    }
    verdict
}

/// The second parser may refuse a head that the check takes. It never reads another one in it.
fn compare(bytes: &[u8], framing: Framing) {
    let mut headers = vec![EMPTY_HEADER; HEADERS_MAX];
    let mut second = Request::new(&mut headers);
    let Ok(status) = second.parse(bytes) else {
        return;
    };
    assert_eq!(status, Status::Complete(bytes.len()), "the ends differ");
    let line_end = bytes.iter().position(|byte| *byte == b'\r');
    let line = &bytes[..line_end.expect("a line")];
    let version = second.version.expect("a version");
    let method = second.method.expect("a method");
    let target = second.path.expect("a target");
    let again = format!("{method} {target} HTTP/1.{version}");
    assert_eq!(line, again.as_bytes(), "the first lines differ");
    let lines = bytes.split(|byte| *byte == b'\n').count();
    // The first line, the empty one, and the nothing behind it.
    assert_eq!(second.headers.len(), lines - 3, "the headers differ");
    assert_eq!(framing_of(&second, version), framing, "the bodies differ");
}

/// The body that the headers of the second parser announce.
fn framing_of(request: &Request<'_, '_>, version: u8) -> Framing {
    let values = |name: &str| -> Vec<&[u8]> {
        let named = request.headers.iter();
        let named = named.filter(|header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value).collect()
    };
    assert!(values("host").len() < 2, "two hosts");
    let lengths = values("content-length");
    let codings = values("transfer-encoding");
    let is_upgrade = !values("upgrade").is_empty();
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) if is_upgrade => Framing::Upgrade,
        ([], []) => Framing::Sized(0),
        ([length], []) => {
            let text = std::str::from_utf8(length).expect("digits");
            let length = text.parse().expect("a number");
            if is_upgrade {
                assert_eq!(length, 0, "an upgrade with a body");
                return Framing::Upgrade;
            }
            Framing::Sized(length)
        }
        ([], [coding]) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked"), "another coding");
            assert_eq!(version, 1, "chunks in HTTP/1.0");
            assert!(!is_upgrade, "an upgrade with a body");
            Framing::Chunked
        }
        _ => panic!("two lengths of one body"),
    }
}
