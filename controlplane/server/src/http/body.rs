//! Reads the bodies of requests into memory, within limits.
//!
//! | limit | value | at the limit |
//! |---|---|---|
//! | one body | `limits.job_max_bytes` (8 MiB), 4 KiB for `acl/bootstrap` | 413 |
//! | all bodies | [`BODIES_MAX`] of the largest size (128 MiB) | 503 |
//! | time | [`TIME_MAX`] (60 s) | 408 |
//!
//! A body counts from its first byte until its request is answered. It is one buffer, whatever the
//! frames that it comes in: a frame of one byte costs 40 bytes where it is kept.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::HttpError;

/// Bodies of the largest size that all requests together may hold.
const BODIES_MAX: usize = 16;
/// How long a client may take to send a body.
const TIME_MAX: Duration = Duration::from_secs(60);
/// A buffer grows by this at least, and by this part of it: little more is held than was sent.
const GROWTH_MIN_BYTES: usize = 16 * 1024;
const GROWTH_PART: usize = 16;

/// What becomes of the body of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BodyUse {
    /// It is never looked at.
    Unread,
    /// It is read before the request is served, up to so many bytes.
    Whole { bytes_max: usize },
    /// Whoever serves the request reads it piece by piece.
    Streamed,
}

/// What the bodies of all requests may cost. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Bodies {
    /// One permit per byte.
    budget: Arc<Semaphore>,
    bytes_max: usize,
}

/// A body in memory, as much as it holds of the budget.
#[derive(Debug, Default)]
pub(super) struct WholeBody {
    bytes: Vec<u8>,
    charged: Option<OwnedSemaphorePermit>,
}

impl std::ops::Deref for WholeBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Bodies {
    /// For bodies of up to `body_bytes`.
    pub(super) fn new(body_bytes: usize) -> Self {
        let bytes_max = body_bytes.saturating_mul(BODIES_MAX);
        let bytes_max = bytes_max.min(Semaphore::MAX_PERMITS);
        Self {
            budget: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
        }
    }

    /// Reads a body of up to `bytes_max` bytes.
    ///
    /// # Errors
    /// At one of the limits, and where the client does not send what it promised.
    pub(super) async fn read(&self, body: Body, bytes_max: usize) -> Result<WholeBody, HttpError> {
        let read = timeout(TIME_MAX, self.read_frames(body, bytes_max)).await;
        read.map_err(|_| {
            HttpError::new(
                StatusCode::REQUEST_TIMEOUT,
                format!("no whole body within {TIME_MAX:?}"),
            )
        })?
    }

    async fn read_frames(&self, mut body: Body, bytes_max: usize) -> Result<WholeBody, HttpError> {
        let mut whole = WholeBody::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                HttpError::bad_request(format!("cannot read the body: {error}"))
            })?;
            // Trailers mean nothing here.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if data.len() > bytes_max - whole.bytes.len() {
                return Err(HttpError::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    format!("the body is larger than {bytes_max} bytes"),
                ));
            }
            self.make_room(&mut whole, data.len(), bytes_max)?;
            whole.bytes.extend_from_slice(&data);
        }
        Ok(whole)
    }

    /// Makes room for so many bytes more, and charges it.
    fn make_room(
        &self,
        whole: &mut WholeBody,
        more: usize,
        bytes_max: usize,
    ) -> Result<(), HttpError> {
        let (held, capacity) = (whole.bytes.len(), whole.bytes.capacity());
        let needed = held + more;
        if needed <= capacity {
            return Ok(());
        }
        let growth = (capacity / GROWTH_PART).max(GROWTH_MIN_BYTES);
        let wanted = needed.max(capacity + growth).min(bytes_max.max(needed));
        let budget = Arc::clone(&self.budget);
        let charge = u32::try_from(wanted - capacity).ok();
        let charge = charge.and_then(|bytes| budget.try_acquire_many_owned(bytes).ok());
        let Some(charge) = charge else {
            let bytes = self.bytes_max;
            return Err(HttpError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "the bodies of other requests take up the {bytes} bytes that this server holds \
                     at a time: try again"
                ),
            ));
        };
        match &mut whole.charged {
            Some(charged) => charged.merge(charge),
            none => *none = Some(charge),
        }
        whole.bytes.reserve_exact(wanted - held);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use futures::stream;

    use super::*;

    const BODY_BYTES: usize = 1 << 20;

    /// A body in frames of one byte.
    fn crumbs(bytes: usize) -> Body {
        let frame = || Ok::<_, std::io::Error>(Bytes::from_static(b"x"));
        Body::from_stream(stream::iter(std::iter::repeat_with(frame).take(bytes)))
    }

    fn taken(bodies: &Bodies) -> usize {
        bodies.bytes_max - bodies.budget.available_permits()
    }

    #[tokio::test]
    async fn frames_of_one_byte_cost_little_more_than_their_bytes() {
        let bodies = Bodies::new(BODY_BYTES);
        let whole = bodies.read(crumbs(300_000), BODY_BYTES).await;
        let whole = whole.expect("it fits");
        assert_eq!(whole.len(), 300_000);
        let capacity = whole.bytes.capacity();
        assert!(
            capacity < 300_000 * 17 / 16 + GROWTH_MIN_BYTES,
            "{capacity}"
        );
        assert_eq!(taken(&bodies), capacity);
        drop(whole);
        assert_eq!(taken(&bodies), 0);
    }

    #[tokio::test]
    async fn a_body_larger_than_its_limit_is_refused() {
        let bodies = Bodies::new(BODY_BYTES);
        bodies.read(crumbs(4096), 4096).await.expect("it fits");
        let refused = bodies
            .read(crumbs(4097), 4096)
            .await
            .expect_err("too large");
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
        let refused = bodies.read(crumbs(1), 0).await.expect_err("too large");
        assert_eq!(refused.message, "the body is larger than 0 bytes");
        assert_eq!(taken(&bodies), 0);
    }

    #[tokio::test]
    async fn all_bodies_together_have_a_budget() {
        let bodies = Bodies::new(BODY_BYTES);
        let large = || Body::from(vec![0; BODY_BYTES]);
        let mut held = Vec::new();
        for _ in 0..BODIES_MAX {
            held.push(bodies.read(large(), BODY_BYTES).await.expect("it fits"));
        }
        let refused = bodies
            .read(crumbs(1), BODY_BYTES)
            .await
            .expect_err("no room");
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        held.pop();
        bodies
            .read(large(), BODY_BYTES)
            .await
            .expect("it fits again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let bodies = Bodies::new(BODY_BYTES);
        let never = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let refused = bodies.read(never, BODY_BYTES).await.expect_err("too late");
        assert_eq!(refused.status, StatusCode::REQUEST_TIMEOUT);
    }
}
