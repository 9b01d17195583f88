//! A command that runs in a task, our stdin and terminal connected to it.
//!
//! ```text
//!   stdin thread --bytes--> {"stdin":{"data":..}} ---+
//!   window size ----------> {"tty_size":{..}} -------+--> WebSocket --> task
//!   stdout, stderr <------- {"stdout":{"data":..}} <-+
//!   exit code <------------ {"exited":true,"result":{"exit_code":..}}
//! ```

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{ArgAction, Args};
use futures::stream::SplitSink;
use futures::{SinkExt as _, StreamExt as _};
use protocol_api::client::{ExecData, ExecInput, ExecOutput, TtySize};
use protocol_client::{Client, ClientError, Query, WebSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::escape::{self, Escape};
use super::terminal::{self, RawTerminal};
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Bytes that are read from stdin at once.
const PIECE_BYTES: usize = 32 * 1024;
/// Pieces that may wait for the network; then stdin waits.
const PIECES_MAX: usize = 8;
/// How often a silent stream is kept alive.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How our stdin and terminal are connected to the command.
#[derive(Args, Debug)]
pub(crate) struct Connection {
    /// Pass our stdin on; -i=false does not
    #[arg(short = 'i', action = ArgAction::Set, default_value_t = true, num_args = 0..=1,
          require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    stdin: bool,
    /// Give it a terminal; the default where stdin and stdout are one
    #[arg(short = 't', action = ArgAction::Set, num_args = 0..=1,
          require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    tty: Option<bool>,
    /// With a terminal: this sign and a dot at the beginning of a line end the session; or none
    #[arg(short = 'e', value_name = "SIGN", default_value = "~")]
    escape: String,
}

impl Connection {
    /// Runs the command that `path` and `query` name, until it exits or the user ends the session.
    ///
    /// # Errors
    /// If the escape sign is none, the server refuses, or the stream breaks.
    pub(crate) async fn run(
        self,
        session: &Session,
        client: &Client,
        path: &str,
        query: Query,
    ) -> Result<Exit, Failure> {
        let sign =
            escape::sign(&self.escape).map_err(|reason| Failure::usage(format!("-e: {reason}")))?;
        let interactive = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let tty = self.tty.unwrap_or(interactive && self.stdin);
        let socket = client.websocket(path, &query.with("tty", tty)).await?;
        let raw = if tty && interactive {
            Some(RawTerminal::enter()?)
        } else {
            None
        };
        let typing = match (self.stdin, raw.is_some()) {
            (false, _) => Typing::Nothing,
            (true, false) => Typing::Stream,
            (true, true) => Typing::Terminal(Escape::new(sign)),
        };
        let ended = converse(session, socket, typing).await;
        drop(raw);
        if let Ok(None) = ended {
            session
                .out
                .note("\nThe session was ended here; the command may go on.");
        }
        ended.map(|exit| exit.unwrap_or(Exit::NO))
    }
}

/// The input of the command.
#[derive(Clone, Copy, Debug)]
enum Typing {
    /// Nothing: its stdin ends at once.
    Nothing,
    /// Our stdin, byte by byte.
    Stream,
    /// Keys of a raw terminal, whose size the command gets, too.
    Terminal(Escape),
}

/// Carries bytes both ways until the command has ended; `None` where the user ended the session.
///
/// Both ways at once: a command that waits for its output to be read reads nothing meanwhile, and
/// then nobody takes what we send.
async fn converse(
    session: &Session,
    socket: WebSocket,
    typing: Typing,
) -> Result<Option<Exit>, Failure> {
    let (mut sender, mut receiver) = socket.split();
    let receiving = async {
        loop {
            match receiver.next().await {
                Some(Ok(message)) => {
                    if let Some(exit) = received(session, message)? {
                        return Ok(Some(exit));
                    }
                }
                Some(Err(error)) => return Err(Failure::Broken(error.to_string())),
                None => return Err(Failure::Broken("the server closed it".to_owned())),
            }
        }
    };
    tokio::pin!(receiving);
    tokio::select! {
        biased;
        ended = &mut receiving => ended,
        sent = send_all(&mut sender, typing) => match sent {
            Ok(()) => Ok(None),
            Err(failure @ Failure::Host { .. }) => Err(failure),
            // Why nothing is taken any more is said in what comes.
            Err(_) => receiving.await,
        },
    }
}

/// Sends what is typed, the window's size, and heartbeats, until the user ends the session.
async fn send_all(
    sender: &mut SplitSink<WebSocket, Message>,
    typing: Typing,
) -> Result<(), Failure> {
    let (with_stdin, has_window, mut escape) = match typing {
        Typing::Nothing => (false, false, Escape::new(None)),
        Typing::Stream => (true, false, Escape::new(None)),
        Typing::Terminal(escape) => (true, true, escape),
    };
    let mut input = with_stdin.then(read_stdin);
    let mut resized = signal(SignalKind::window_change()).map_err(|source| Failure::Host {
        what: "watching the window's size",
        source,
    })?;
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    if has_window {
        send_window(sender).await?;
    }
    if !with_stdin {
        send(sender, &input_end()).await?;
    }
    loop {
        tokio::select! {
            piece = next_piece(&mut input) => {
                let message = match piece {
                    Some(bytes) => {
                        let typed = escape.pass(&bytes);
                        if typed.over {
                            return Ok(());
                        }
                        ExecInput {
                            stdin: Some(ExecData {
                                data: Some(STANDARD.encode(typed.bytes)),
                                close: false,
                            }),
                            tty_size: None,
                        }
                    }
                    None => {
                        input = None;
                        input_end()
                    }
                };
                send(sender, &message).await?;
            }
            Some(()) = resized.recv(), if has_window => send_window(sender).await?,
            _ = heartbeat.tick() => send(sender, &ExecInput::default()).await?,
        }
    }
}

/// Shows what a message brings; the exit code once the command has ended.
fn received(session: &Session, message: Message) -> Result<Option<Exit>, Failure> {
    let text = match message {
        Message::Text(text) => text.as_bytes().to_vec(),
        Message::Binary(bytes) => bytes.to_vec(),
        Message::Close(Some(frame)) => return Err(closed(u16::from(frame.code), &frame.reason)),
        Message::Close(None) => return Err(Failure::Broken("the server closed it".to_owned())),
        Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return Ok(None),
    };
    let output: ExecOutput = serde_json::from_slice(&text).map_err(|source| Failure::Json {
        what: "a message of exec",
        source,
    })?;
    if let Some(data) = output.stdout.and_then(|piece| piece.data) {
        session.out.bytes(&decode(&data)?)?;
    }
    if let Some(data) = output.stderr.and_then(|piece| piece.data) {
        session.out.error_bytes(&decode(&data)?);
    }
    if !output.exited {
        return Ok(None);
    }
    let code = output.result.unwrap_or_default().exit_code;
    // A code that is no exit code of ours is still no success.
    Ok(Some(Exit(u8::try_from(code).unwrap_or(u8::MAX))))
}

/// Why the server closed the stream. A refusal comes as its HTTP status, 4000 added.
fn closed(code: u16, reason: &str) -> Failure {
    match code.checked_sub(4000) {
        Some(code) => Failure::Api(ClientError::Status {
            code,
            message: reason.to_owned(),
        }),
        None => Failure::Broken(reason.to_owned()),
    }
}

fn decode(data: &str) -> Result<Vec<u8>, Failure> {
    STANDARD
        .decode(data)
        .map_err(|error| Failure::Broken(format!("a message of exec: {error}")))
}

async fn send(
    sender: &mut SplitSink<WebSocket, Message>,
    message: &ExecInput,
) -> Result<(), Failure> {
    let text = serde_json::to_string(message).map_err(|source| Failure::Json {
        what: "a message of exec",
        source,
    })?;
    sender
        .send(Message::Text(text.into()))
        .await
        .map_err(|error| Failure::Broken(error.to_string()))
}

async fn send_window(sender: &mut SplitSink<WebSocket, Message>) -> Result<(), Failure> {
    let Some(size) = terminal::window() else {
        return Ok(());
    };
    let message = ExecInput {
        stdin: None,
        tty_size: Some(TtySize {
            height: size.ws_row.into(),
            width: size.ws_col.into(),
        }),
    };
    send(sender, &message).await
}

/// The message that ends the command's stdin.
fn input_end() -> ExecInput {
    ExecInput {
        stdin: Some(ExecData {
            data: None,
            close: true,
        }),
        tty_size: None,
    }
}

/// The next piece of stdin; `None` at its end; never, where stdin is not passed on (any more).
async fn next_piece(input: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match input {
        Some(pieces) => pieces.recv().await,
        None => std::future::pending().await,
    }
}

/// Reads stdin on a thread of its own: a read of a terminal cannot be taken back, and the process
/// must not wait for it when the command has ended.
fn read_stdin() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(count) = stdin.read(&mut piece) {
            if count == 0 || sender.blocking_send(piece[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}
