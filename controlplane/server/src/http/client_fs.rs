//! `/v1/client/fs`: output and files of allocations, read from their nodes.
//!
//! ```text
//!   node --FileChunk--> {"Data":base64,"File":...,"Offset":...}   framed, `{}` while nothing comes
//!                   \-> the bytes themselves                      `?plain=true`, cat, readat
//! ```

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol_access::budget::Place;
use protocol_api::client::{
    ListFiles, ReadFile, ReadFileAt, ReadLogs, StatFile, StreamFile, StreamFrame,
};
use protocol_model::AllocId;
use protocol_wire::v1::node_reply::Reply;
use protocol_wire::v1::node_request::Request;
use protocol_wire::v1::{self, FileChunk};
use tokio::sync::mpsc;

use super::alloc;
use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::node_call::{NodeCall, Step, forward_document};
use super::route::{Routes, routes};
use crate::gateway::STALLED_MAX;

pub(super) const ROUTES: Routes = routes![
    ReadLogs => logs,
    ListFiles => list,
    StatFile => stat,
    ReadFile => cat,
    ReadFileAt => read_at,
    StreamFile => follow,
];

async fn list(ask: &Ask) -> Answered {
    let request = Request::FsList(v1::FsListRequest { path: path(ask) });
    forward_document(ask, alloc::id(ask)?, request).await
}

async fn stat(ask: &Ask) -> Answered {
    let request = Request::FsStat(v1::FsStatRequest { path: path(ask) });
    forward_document(ask, alloc::id(ask)?, request).await
}

async fn cat(ask: &Ask) -> Answered {
    let whole = Span {
        offset: 0,
        limit: 0,
    };
    read_file(ask, alloc::id(ask)?, whole, Form::Plain, false).await
}

async fn read_at(ask: &Ask) -> Answered {
    let id = alloc::id(ask)?;
    read_file(ask, id, span(ask)?, Form::Plain, false).await
}

async fn follow(ask: &Ask) -> Answered {
    let id = alloc::id(ask)?;
    let span = Span {
        limit: 0,
        ..span(ask)?
    };
    // Nomad's default here, unlike everywhere else.
    let follow = ask.query.get("follow").is_none() || ask.query.flag("follow")?;
    read_file(ask, id, span, Form::Framed, follow).await
}

/// The file; the allocation's directory where nothing is said.
fn path(ask: &Ask) -> String {
    ask.query.text("path").unwrap_or("/").to_owned()
}

struct Span {
    offset: i64,
    limit: i64,
}

/// `?offset=` and `?limit=`. A limit of 0 or less is none, as Nomad's command line asks for the
/// whole file.
fn span(ask: &Ask) -> Result<Span, HttpError> {
    let offset: i64 = ask.query.number("offset")?.unwrap_or(0);
    let limit: i64 = ask.query.number("limit")?.unwrap_or(0);
    if offset < 0 {
        return Err(HttpError::bad_request(format!(
            "offset must not be negative, and is {offset}"
        )));
    }
    let limit = limit.max(0);
    Ok(Span { offset, limit })
}

fn origin(ask: &Ask) -> Result<v1::Origin, HttpError> {
    match ask.query.text("origin") {
        None | Some("start") => Ok(v1::Origin::Start),
        Some("end") => Ok(v1::Origin::End),
        Some(other) => Err(HttpError::bad_request(format!(
            "Invalid origin {other:?}: it must be start or end"
        ))),
    }
}

async fn logs(ask: &Ask) -> Answered {
    let id = alloc::id(ask)?;
    let task = ask
        .query
        .text("task")
        .ok_or_else(|| HttpError::bad_request("must provide task name"))?
        .to_owned();
    let stderr = match ask.query.text("type") {
        Some("stdout") | None => false,
        Some("stderr") => true,
        Some(_) => {
            return Err(HttpError::bad_request(
                "log type must be \"stdout\" or \"stderr\"",
            ));
        }
    };
    let follow = ask.query.flag("follow")?;
    let Span { offset, .. } = span(ask)?;
    let form = if ask.query.flag("plain")? {
        Form::Plain
    } else {
        Form::Framed
    };
    let origin = origin(ask)?.into();
    let request = Request::Logs(v1::LogsRequest {
        task,
        stderr,
        follow,
        offset,
        origin,
    });
    stream(ask, id, request, form).await
}

async fn read_file(ask: &Ask, id: AllocId, span: Span, form: Form, follow: bool) -> Answered {
    let path = ask
        .query
        .text("path")
        .ok_or_else(|| HttpError::bad_request("must provide a file name"))?
        .to_owned();
    let Span { offset, limit } = span;
    let origin = origin(ask)?.into();
    let request = Request::FsRead(v1::FsReadRequest {
        path,
        offset,
        limit,
        follow,
        origin,
    });
    stream(ask, id, request, form).await
}

/// How file contents are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// As they are.
    Plain,
    /// As JSON objects, one after the other.
    Framed,
}

/// Parts of an answer that wait for their reader.
const PARTS_MAX: usize = 4;

/// The answer: its head is sent once the node's first word is known, so that a refusal has a
/// status.
async fn stream(ask: &Ask, id: AllocId, request: Request, form: Form) -> Answered {
    let place = ask.gate.enter(&ask.api, Place::Stream)?;
    let mut call = NodeCall::about(&ask.api, id, request).await?;
    let first = call.next().await?;
    let (parts, received) = mpsc::channel(PARTS_MAX);
    let (api, gate) = (ask.api.clone(), Arc::clone(&ask.gate));
    tokio::spawn(async move {
        tokio::select! {
            () = carry(call, first, form, parts) => {}
            refused = gate.until_refused(&api) => {
                tracing::debug!(reason = %refused.message, "an answer was ended");
            }
        }
        drop(place);
    });
    let parts = futures::stream::unfold(Some(received), |state| async move {
        let mut received = state?;
        match received.recv().await {
            Some(Carried::Part(part)) => Some((Ok(part), Some(received))),
            Some(Carried::End) => None,
            // The head is sent: an answer that breaks off is all that can be said.
            None => Some((Err(std::io::Error::other("the answer broke off")), None)),
        }
    });
    let kind = match form {
        Form::Plain => "text/plain; charset=utf-8",
        Form::Framed => "application/json",
    };
    let response: Response =
        ([(header::CONTENT_TYPE, kind)], Body::from_stream(parts)).into_response();
    Ok(response)
}

/// What goes to whoever reads an answer.
enum Carried {
    Part(Bytes),
    /// Nothing follows.
    End,
}

/// Carries a call's answer to its reader, and ends the call with the answer, with the reader, or
/// when the reader has taken nothing for too long: nobody asks for more meanwhile, so that this
/// needs a task of its own.
async fn carry(mut call: NodeCall, first: Step, form: Form, parts: mpsc::Sender<Carried>) {
    let mut step = first;
    loop {
        let carried = match &step {
            Step::End => Carried::End,
            Step::Reply(reply) => Carried::Part(part(reply, form)),
        };
        if parts.send_timeout(carried, STALLED_MAX).await.is_err() || matches!(step, Step::End) {
            return;
        }
        let next = tokio::select! {
            next = call.next() => next,
            () = parts.closed() => return,
        };
        match next {
            Ok(next) => step = next,
            Err(error) => {
                tracing::debug!(reason = %error.message, "an answer broke off");
                return;
            }
        }
    }
}

fn part(reply: &Reply, form: Form) -> Bytes {
    match (reply, form) {
        (Reply::Chunk(chunk), Form::Plain) => chunk.data.clone(),
        (Reply::Chunk(chunk), Form::Framed) => frame(chunk),
        (Reply::Heartbeat(_), Form::Framed) => Bytes::from_static(b"{}"),
        _ => Bytes::new(),
    }
}

fn frame(chunk: &FileChunk) -> Bytes {
    let frame = StreamFrame {
        data: STANDARD.encode(&chunk.data),
        file: chunk.file.clone(),
        offset: chunk.offset,
        file_event: chunk.event.clone(),
    };
    serde_json::to_vec(&frame).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_only_what_they_say() {
        let chunk = FileChunk {
            file: "alloc/logs/web.stdout.0".to_owned(),
            offset: 5,
            data: Bytes::from_static(b"hello"),
            event: String::new(),
        };
        let framed = part(&Reply::Chunk(chunk.clone()), Form::Framed);
        let expected = r#"{"Data":"aGVsbG8=","File":"alloc/logs/web.stdout.0","Offset":5}"#;
        assert_eq!(framed, expected.as_bytes());
        assert_eq!(part(&Reply::Chunk(chunk), Form::Plain), &b"hello"[..]);
        assert_eq!(part(&Reply::Heartbeat(true), Form::Framed), &b"{}"[..]);
    }
}
