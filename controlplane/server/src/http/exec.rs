//! `/v1/client/allocation/:id/exec`: a command in a task, over a WebSocket. Actions of jobs
//! (`actions.rs`) take the same way.
//!
//! ```text
//!   client --{"stdin":{"data"|"close"}} {"tty_size":{..}} {}--> here --ExecInput--> node
//!          <--{"stdout":{..}} {"stderr":{..}}------------------      <--ExecOutput--
//!          <--{"exited":true,"result":{"exit_code":0}}, then close
//! ```
//!
//! A client that cannot send headers (a browser) says `?ws_handshake=true` and sends its token as
//! the first message. What goes wrong before the upgrade is an ordinary status; what goes wrong
//! after it is the code 4000 + status of the closing frame.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use protocol_access::NamespaceCapability;
use protocol_access::budget::Place;
use protocol_api::client::{self, ExecData, ExecOutput, ExecResult};
use protocol_model::{AllocId, json};
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::to_frame;
use protocol_wire::v1::exec_input::Input;
use protocol_wire::v1::exec_output::Output;
use protocol_wire::v1::node_reply::Reply;
use protocol_wire::v1::node_request::Request;
use protocol_wire::v1::{self, ExecInput};
use serde::Deserialize;
use tokio::time::timeout;

use super::Api;
use super::alloc;
use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::gate::Gate;
use super::lookup;
use super::node_call::{self, NodeCall, Step};
use super::query::Query;
use crate::access::OccupiedPlace;
use crate::gateway::{NodeCallStream, STALLED_MAX};

/// The largest message of a client.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Words of a command.
const COMMAND_WORDS_MAX: usize = 4096;
/// Drivers whose tasks see the files of the host.
const NOT_ISOLATED: [&str; 1] = ["raw_exec"];
/// How long a client may take for its first message, where that holds its token.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// The longest reason that fits into a closing frame (RFC 6455, section 5.5).
const REASON_BYTES_MAX: usize = 123;

pub(super) async fn exec(ask: &mut Ask) -> Answered {
    let id = alloc::id(ask)?;
    let request = request(&ask.query)?;
    open(ask, id, request).await
}

/// Upgrades the request to a WebSocket that carries `request`, a command, to the allocation's node.
///
/// # Errors
/// Where the request cannot be upgraded; without a handshake message, where the node is out of
/// reach.
pub(super) async fn open(ask: &mut Ask, id: AllocId, request: Request) -> Answered {
    let upgrade = ask
        .upgrade
        .take()
        .ok_or_else(|| HttpError::bad_request("exec is spoken over a WebSocket"))?;
    let handshake = ask.query.flag("ws_handshake")? || ask.gate.awaits_handshake();
    let gate = Arc::clone(&ask.gate);
    let api = ask.api.clone();
    let held = ask.held.take();
    let upgrade = upgrade.max_message_size(MESSAGE_BYTES_MAX);
    if handshake {
        return Ok(upgrade.on_upgrade(move |mut socket| async move {
            let opened = match shake_hands(&api, &gate, &mut socket).await {
                Ok(()) => occupied_call(&api, &gate, id, request).await,
                Err(error) => Err(error),
            };
            match opened {
                Ok((call, place)) => {
                    converse(socket, call, &api, &gate).await;
                    drop(place);
                }
                Err(error) => close(&mut socket, &error).await,
            }
            drop(held);
        }));
    }
    let (call, place) = occupied_call(&api, &gate, id, request).await?;
    Ok(upgrade.on_upgrade(move |socket| async move {
        converse(socket, call, &api, &gate).await;
        drop((held, place));
    }))
}

/// Opens the call in a place of the caller.
async fn occupied_call(
    api: &Api,
    gate: &Gate,
    id: AllocId,
    request: Request,
) -> Result<(NodeCall, Option<OccupiedPlace>), HttpError> {
    let place = gate.enter(api, Place::Stream)?;
    Ok((open_call(api, gate, id, request).await?, place))
}

/// Opens the call. A command beside a task whose driver isolates no files sees the whole host, so
/// it needs a right of its own.
async fn open_call(
    api: &Api,
    gate: &Gate,
    id: AllocId,
    request: Request,
) -> Result<NodeCall, HttpError> {
    if let Request::Exec(exec) = &request {
        let snapshot = api.cluster.snapshot();
        let alloc = lookup::alloc(&snapshot, id)?;
        let group = snapshot.group_of_alloc(alloc);
        let task = group.and_then(|group| group.tasks.iter().find(|it| it.name == exec.task));
        let sees_host = task.is_some_and(|task| NOT_ISOLATED.contains(&task.driver.as_str()));
        let capability = NamespaceCapability::AllocNodeExec;
        if sees_host && !gate.acl().namespace(&alloc.namespace, capability) {
            return Err(HttpError::permission_denied());
        }
    }
    NodeCall::about(api, id, request).await
}

pub(super) fn request(query: &Query) -> Result<Request, HttpError> {
    let task = query.text("task").unwrap_or("").to_owned();
    if task.is_empty() {
        return Err(HttpError::bad_request("must provide a task name"));
    }
    let command = query.text("command").unwrap_or("[]");
    let command: Vec<String> = serde_json::from_str(command).map_err(|error| {
        HttpError::bad_request(format!("command is no JSON array of texts: {error}"))
    })?;
    if command.is_empty() || command.len() > COMMAND_WORDS_MAX {
        return Err(HttpError::bad_request("must provide a command"));
    }
    let tty = query.flag("tty")?;
    Ok(Request::Exec(v1::ExecRequest { task, command, tty }))
}

#[derive(Deserialize)]
pub(super) struct Handshake {
    #[serde(default)]
    auth_token: String,
}

/// Reads the first message, and whose token it holds.
async fn shake_hands(api: &Api, gate: &Gate, socket: &mut WebSocket) -> Result<(), HttpError> {
    let message = timeout(HANDSHAKE_MAX, socket.recv()).await;
    let text = match &message {
        Ok(Some(Ok(Message::Text(text)))) => text.as_bytes(),
        Ok(Some(Ok(Message::Binary(bytes)))) => bytes,
        _ => return Err(HttpError::bad_request("no handshake message came")),
    };
    let handshake: Handshake = json::from_slice(text)
        .map_err(|error| HttpError::bad_request(format!("the handshake message: {error}")))?;
    gate.shake_hands(api, &handshake.auth_token).await
}

/// Carries both directions until the command ends or the client leaves.
async fn converse(socket: WebSocket, call: NodeCall, api: &Api, gate: &Gate) {
    let NodeCall(NodeCallStream {
        writer,
        reader,
        place,
    }) = call;
    let (mut sender, receiver) = socket.split();
    let ended = tokio::select! {
        ended = to_client(&mut sender, reader) => ended,
        ended = to_node(receiver, writer) => ended,
        refused = gate.until_refused(api) => Err(refused),
    };
    let frame = match ended {
        Ok(()) => CloseFrame {
            code: 1000,
            reason: "".into(),
        },
        Err(error) => closing(&error),
    };
    // Whatever becomes of the client, the node is free for others.
    drop(place);
    let _ = sender.send(Message::Close(Some(frame))).await;
    let _ = sender.flush().await;
}

async fn to_client(
    sender: &mut SplitSink<WebSocket, Message>,
    mut reader: FrameReader,
) -> Result<(), HttpError> {
    loop {
        let text = match node_call::next(&mut reader).await? {
            Step::End => return Ok(()),
            Step::Reply(Reply::Exec(v1::ExecOutput {
                output: Some(output),
            })) => shown(&output),
            Step::Reply(Reply::Heartbeat(_)) => "{}".to_owned(),
            Step::Reply(_) => continue,
        };
        let sent = timeout(STALLED_MAX, sender.send(Message::Text(text.into()))).await;
        if !matches!(sent, Ok(Ok(()))) {
            return Ok(());
        }
    }
}

fn shown(output: &Output) -> String {
    let stream = |data: &[u8]| {
        let close = data.is_empty();
        let data = (!close).then(|| STANDARD.encode(data));
        Some(ExecData { data, close })
    };
    let mut shown = ExecOutput::default();
    match output {
        Output::Stdout(data) => shown.stdout = stream(data),
        Output::Stderr(data) => shown.stderr = stream(data),
        Output::ExitCode(code) => {
            shown.exited = true;
            shown.result = Some(ExecResult { exit_code: *code });
        }
    }
    serde_json::to_string(&shown).unwrap_or_default()
}

/// Ends with the client. A node that does not listen any more is about to say why, or how the
/// command ended: what comes for it until then is dropped.
async fn to_node(
    mut receiver: SplitStream<WebSocket>,
    writer: FrameWriter,
) -> Result<(), HttpError> {
    let mut writer = Some(writer);
    while let Some(message) = receiver.next().await {
        let inputs = match message {
            Ok(Message::Text(text)) => inputs(text.as_bytes())?,
            Ok(Message::Binary(bytes)) => inputs(&bytes)?,
            Ok(Message::Ping(_) | Message::Pong(_)) => continue,
            Ok(Message::Close(_)) | Err(_) => return Ok(()),
        };
        for input in inputs {
            let Some(open) = &mut writer else { break };
            let (kind, body) = to_frame(&ExecInput { input: Some(input) });
            if open.write(kind, body).await.is_err() {
                writer = None;
            }
        }
    }
    Ok(())
}

pub(super) fn inputs(text: &[u8]) -> Result<Vec<Input>, HttpError> {
    let client::ExecInput { stdin, tty_size } = json::from_slice(text)
        .map_err(|error| HttpError::bad_request(format!("an exec message: {error}")))?;
    let mut inputs = Vec::new();
    if let Some(ExecData { data, close }) = stdin {
        if let Some(data) = data.filter(|data| !data.is_empty()) {
            let data = STANDARD
                .decode(data)
                .map_err(|error| HttpError::bad_request(format!("stdin.data: {error}")))?;
            inputs.push(Input::Stdin(data.into()));
        }
        if close {
            inputs.push(Input::StdinClose(true));
        }
    }
    if let Some(client::TtySize { height, width }) = tty_size {
        inputs.push(Input::TtySize(v1::TtySize { height, width }));
    }
    if inputs.is_empty() {
        inputs.push(Input::Heartbeat(true));
    }
    Ok(inputs)
}

async fn close(socket: &mut WebSocket, error: &HttpError) {
    let _ = socket.send(Message::Close(Some(closing(error)))).await;
}

fn closing(error: &HttpError) -> CloseFrame {
    CloseFrame {
        code: 4000 + error.status.as_u16(),
        reason: shortened(&error.message).into(),
    }
}

/// A reason that fits: without its middle, since what failed comes first and why comes last.
fn shortened(words: &str) -> String {
    const GAP: &str = " ... ";
    /// Enough for the words of a system error.
    const END_BYTES: usize = 50;
    if words.len() <= REASON_BYTES_MAX {
        return words.to_owned();
    }
    let begin = words.floor_char_boundary(REASON_BYTES_MAX - GAP.len() - END_BYTES);
    let end = words.ceil_char_boundary(words.len() - END_BYTES);
    format!("{}{GAP}{}", &words[..begin], &words[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_messages_become_inputs() -> Result<(), HttpError> {
        let both = inputs(br#"{"stdin":{"data":"bHMK","close":true}}"#)?;
        assert_eq!(
            both,
            [
                Input::Stdin(b"ls\n".to_vec().into()),
                Input::StdinClose(true)
            ]
        );
        assert_eq!(inputs(b"{}")?, [Input::Heartbeat(true)]);
        let size = inputs(br#"{"tty_size":{"height":24,"width":80}}"#)?;
        assert_eq!(
            size,
            [Input::TtySize(v1::TtySize {
                height: 24,
                width: 80
            })]
        );
        inputs(br#"{"stdin":{"data":"?"}}"#).expect_err("no base64");
        Ok(())
    }

    #[test]
    fn outputs_have_the_shape_that_clients_know() {
        let out = shown(&Output::Stdout(b"hi".to_vec().into()));
        assert_eq!(out, r#"{"stdout":{"data":"aGk="}}"#);
        assert_eq!(
            shown(&Output::Stderr(Vec::new().into())),
            r#"{"stderr":{"close":true}}"#
        );
        assert_eq!(
            shown(&Output::ExitCode(3)),
            r#"{"exited":true,"result":{"exit_code":3}}"#
        );
    }

    #[test]
    fn a_long_reason_fits_into_a_closing_frame() {
        let frame = closing(&HttpError::not_found("ä".repeat(100)));
        assert_eq!(frame.code, 4404);
        assert!(frame.reason.len() <= REASON_BYTES_MAX);
        let tried = "/local/x or /usr/local/bin/x or ".repeat(9);
        let words = format!("cannot execute {tried}/x: No such file or directory (os error 2)");
        let frame = closing(&HttpError::not_found(words));
        assert!(frame.reason.len() <= REASON_BYTES_MAX);
        assert!(frame.reason.starts_with("cannot execute /local/x or"));
        let why = "No such file or directory (os error 2)";
        assert!(frame.reason.ends_with(why), "{}", frame.reason.as_str());
        assert_eq!(
            shortened("task \"a\" is not running"),
            "task \"a\" is not running"
        );
    }
}
