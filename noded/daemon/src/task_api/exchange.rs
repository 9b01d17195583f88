//! A request to the server of the session, until its answer begins. Where the session goes to
//! another server meanwhile, a request that changes nothing is asked there once more.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use protocol_wire::v1;
use tokio::time::{Instant, timeout, timeout_at};

use super::forward::{Forwarder, Sessions, key_of};
use super::listen::Connection;
use super::stream::{ApiStream, BODY_PART_BYTES_MAX, Sending, SessionKey};
use crate::queries::LiveSession;

/// How long a request that was lost is asked again, and how long after the end of a session a
/// request waits for the next one.
const MOVE_MAX: Duration = Duration::from_secs(10);
/// Between two attempts in one session.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a client may take to send a body.
const BODY_MAX: Duration = Duration::from_secs(60);

/// A request to forward.
#[derive(Debug)]
pub(super) struct Asked {
    /// Its head, without a body.
    pub(super) head: v1::ApiRequest,
    /// Whether it may be asked twice.
    pub(super) is_repeatable: bool,
}

/// An answer that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) head: v1::ApiResponse,
    /// Its body comes on this.
    pub(super) stream: ApiStream,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// There is no server to ask.
    NoSession,
    /// The server may have done what it was asked.
    OutcomeUnknown(String),
    /// The client took too long.
    BodyTooSlow,
    /// The client did not send what it announced.
    BodyBroken,
}

/// Why one attempt failed.
enum Failed {
    /// Before anything was asked.
    NotAsked(String),
    /// After that.
    Lost(String),
    /// By the client.
    Client(Lost),
}

/// The body of a request.
enum Body {
    /// Whole, and so short that it goes with the head.
    Short(Bytes),
    /// It follows the head.
    Long(Incoming),
    /// A part of it was sent.
    Spent,
}

/// Asks until an answer begins.
///
/// # Errors
/// See [`Lost`].
pub(super) async fn begin(
    connection: &Arc<Connection>,
    asked: Asked,
    body: Incoming,
) -> Result<Begun, Lost> {
    let forwarder = connection.socket.shared.forwarder.get();
    let forwarder = forwarder.ok_or(Lost::NoSession)?;
    let mut sessions = forwarder.sessions();
    let mut body = gather(body).await?;
    let mut first_failed: Option<Instant> = None;
    loop {
        let Some(session) = sessions.newest() else {
            // A node whose session ended a moment ago looks for another server.
            let since = first_failed.or_else(|| forwarder.lost_at());
            let since = since.ok_or(Lost::NoSession)?;
            let changed = timeout_at(since + MOVE_MAX, sessions.changed());
            changed.await.map_err(|_| Lost::NoSession)?;
            continue;
        };
        if !session.serves_queries() {
            return Err(Lost::NoSession);
        }
        let tried = attempt(forwarder, connection, &session, &asked, &mut body).await;
        let (reason, may_repeat) = match tried {
            Ok(begun) => return Ok(begun),
            Err(Failed::Client(lost)) => return Err(lost),
            Err(Failed::NotAsked(reason)) => (reason, true),
            Err(Failed::Lost(reason)) => (reason, asked.is_repeatable),
        };
        if !may_repeat {
            return Err(Lost::OutcomeUnknown(reason));
        }
        let failed_at = *first_failed.get_or_insert_with(Instant::now);
        if failed_at.elapsed() >= MOVE_MAX {
            tracing::debug!(%reason, "a request of a task found no server");
            return Err(Lost::NoSession);
        }
        let _ = timeout(PAUSE, sessions.changed()).await;
    }
}

/// A short body in one piece.
async fn gather(body: Incoming) -> Result<Body, Lost> {
    if body.is_end_stream() {
        return Ok(Body::Short(Bytes::new()));
    }
    let is_short = |bytes| bytes <= BODY_PART_BYTES_MAX as u64;
    if !body.size_hint().exact().is_some_and(is_short) {
        return Ok(Body::Long(body));
    }
    let whole = Limited::new(body, BODY_PART_BYTES_MAX).collect();
    let whole = timeout(BODY_MAX, whole).await;
    let whole = whole.map_err(|_| Lost::BodyTooSlow)?;
    whole
        .map(|whole| Body::Short(whole.to_bytes()))
        .map_err(|_| Lost::BodyBroken)
}

async fn attempt(
    forwarder: &Forwarder,
    connection: &Connection,
    session: &LiveSession,
    asked: &Asked,
    body: &mut Body,
) -> Result<Begun, Failed> {
    let key = key_of(session);
    let kept = connection.stream.lock().take();
    let mut stream = match kept.filter(|kept| kept.session == key) {
        Some(stream) => stream,
        None => forwarder.open(session).await.map_err(Failed::NotAsked)?,
    };
    let mut head = asked.head.clone();
    let long = match std::mem::replace(body, Body::Spent) {
        Body::Short(bytes) => {
            head.body = bytes.clone();
            *body = Body::Short(bytes);
            None
        }
        Body::Long(long) => {
            head.more = true;
            Some(long)
        }
        Body::Spent => return Err(Failed::Lost("the body was sent already".to_owned())),
    };
    let answered = first_answer(forwarder, asked, &mut stream, head, long).await;
    answered.map(|head| Begun { head, stream })
}

/// Sends the request, and waits for the head of its answer.
async fn first_answer(
    forwarder: &Forwarder,
    asked: &Asked,
    stream: &mut ApiStream,
    head: v1::ApiRequest,
    long: Option<Incoming>,
) -> Result<v1::ApiResponse, Failed> {
    let key = stream.session;
    let ApiStream {
        sending,
        receiving,
        is_between,
        ..
    } = stream;
    *is_between = false;
    sending.send(&head).await.map_err(Failed::Lost)?;
    let sent = async {
        if let Some(long) = long {
            send_body(sending, long).await?;
        }
        *is_between = true;
        Ok(())
    };
    let received = receiving.receive::<v1::ApiResponse>();
    let mut sessions = forwarder.sessions();
    let moved = until_moved(&mut sessions, asked, key);
    let mut received = std::pin::pin!(received);
    tokio::select! {
        biased;
        // An answer may come before the whole body was sent: a refusal.
        head = received.as_mut() => head.map_err(Failed::Lost),
        sent = sent => {
            sent?;
            tokio::select! {
                head = received => head.map_err(Failed::Lost),
                () = moved => Err(Failed::Lost("the session went elsewhere".to_owned())),
            }
        }
    }
}

/// Ends when a request that may be repeated is better asked of another server.
async fn until_moved(sessions: &mut Sessions, asked: &Asked, key: SessionKey) {
    if !asked.is_repeatable {
        std::future::pending::<()>().await;
    }
    sessions.moved_from(key).await;
}

async fn send_body(sending: &mut Sending, mut body: Incoming) -> Result<(), Failed> {
    let end = Instant::now() + BODY_MAX;
    loop {
        let frame = timeout_at(end, body.frame()).await;
        let frame = frame.map_err(|_| Failed::Client(Lost::BodyTooSlow))?;
        let Some(frame) = frame else {
            return sending.end_body().await.map_err(Failed::Lost);
        };
        let frame = frame.map_err(|_| Failed::Client(Lost::BodyBroken))?;
        // Trailers mean nothing here.
        if let Ok(data) = frame.into_data() {
            sending.send_part(data).await.map_err(Failed::Lost)?;
        }
    }
}

/// Reads the rest of a short answer; whether the stream can be used again.
pub(super) async fn is_over(stream: &mut ApiStream) -> bool {
    let last = stream.receiving.receive::<v1::ApiBody>().await;
    last.is_ok_and(|part| part.last) && stream.is_between
}
