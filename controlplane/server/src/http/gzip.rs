//! Answers in gzip, for clients that ask for it.
//!
//! Only whole documents are packed: what streams (followed logs, files, snapshots) has no known
//! length and goes out as it comes.

use std::io::Write as _;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use hyper::body::Body as _;

/// Smaller answers fit into one packet anyway.
const BYTES_MIN: u64 = 1024;
/// Larger answers are packed beside the threads that serve sockets.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Whether a client takes gzip (RFC 9110, section 12.5.3).
pub(super) fn accepted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let words = values.filter_map(|value| value.to_str().ok());
    let mut any = None;
    for coding in words.flat_map(|words| words.split(',')) {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight
            .trim()
            .strip_prefix("q=")
            .is_some_and(|weight| weight.trim().parse::<f32>() == Ok(0.0));
        match name.trim() {
            name if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => {
                return !refused;
            }
            "*" => any = Some(!refused),
            _ => {}
        }
    }
    any.unwrap_or(false)
}

/// Packs an answer that is a whole document and worth it.
pub(super) async fn pack(response: Response) -> Response {
    let exact = response.body().size_hint().exact();
    if exact.is_none_or(|bytes| bytes < BYTES_MIN) || !is_document(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(whole) => whole.to_bytes(),
        // A document is in memory: it does not break off.
        Err(error) => return Response::from_parts(parts, Body::from(error.to_string())),
    };
    let packed = if bytes.len() <= INLINE_BYTES_MAX {
        packed(&bytes)
    } else {
        let bytes = bytes.clone();
        let packing = tokio::task::spawn_blocking(move || packed(&bytes)).await;
        packing.unwrap_or(None)
    };
    let headers = &mut parts.headers;
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let Some(packed) = packed else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(parts, Body::from(packed))
}

fn is_document(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let document = kind.starts_with("application/json") || kind.starts_with("text/plain");
    document && !headers.contains_key(header::CONTENT_ENCODING)
}

/// `None` where memory does not take it; the answer goes out as it is then.
fn packed(bytes: &Bytes) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn takes(value: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
        accepted(&headers)
    }

    #[test]
    fn gzip_is_taken_by_whoever_says_so() {
        assert!(takes("gzip") && takes("deflate, gzip;q=0.5") && takes("*") && takes("GZIP"));
        assert!(!takes("deflate") && !takes("gzip;q=0") && !takes("gzip; q=0.0, *"));
        assert!(!accepted(&HeaderMap::new()));
    }

    fn answer(kind: &'static str, body: Body) -> Response {
        let builder = Response::builder().header(header::CONTENT_TYPE, kind);
        builder.body(body).expect("a response")
    }

    async fn body(response: Response) -> Vec<u8> {
        let whole = response.into_body().collect().await.expect("a body");
        whole.to_bytes().to_vec()
    }

    #[tokio::test]
    async fn a_document_is_packed_and_unpacks_to_itself() {
        for size in [2000, 200_000] {
            let text = "x".repeat(size);
            let packed = pack(answer("application/json", Body::from(text.clone()))).await;
            assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
            let bytes = body(packed).await;
            assert!(bytes.len() < size);
            let mut unpacked = String::new();
            flate2::read::GzDecoder::new(bytes.as_slice())
                .read_to_string(&mut unpacked)
                .expect("gzip");
            assert_eq!(unpacked, text);
        }
    }

    #[tokio::test]
    async fn streams_and_small_answers_go_out_as_they_are() {
        let small = pack(answer("application/json", Body::from("{}"))).await;
        assert_eq!(body(small).await, b"{}");
        let part = Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 5000]));
        let stream = Body::from_stream(futures::stream::iter([part]));
        let streamed = pack(answer("application/json", stream)).await;
        assert!(!streamed.headers().contains_key(header::CONTENT_ENCODING));
        assert_eq!(body(streamed).await.len(), 5000);
    }
}
