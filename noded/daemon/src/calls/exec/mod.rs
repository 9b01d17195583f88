//! `alloc exec`: one more process beside a task, in its namespaces and below its cgroup.
//!
//! ```text
//!   ExecInput --> stdin pipe or terminal --> process --> stdout, stderr --> ExecOutput
//!                                               `--> exit code, after all output
//! ```
//!
//! It belongs to its caller: when the caller goes away it is killed.

mod channel;

use std::time::Duration;

use isolation::{ExecInto, Terminal};
use noded_core::RunKey;
use noded_keeper::protocol::Event;
use protocol_transport::FrameReader;
use protocol_wire::kind::from_frame;
use protocol_wire::v1;
use protocol_wire::v1::exec_output::Output;
use protocol_wire::v1::node_reply::Reply;
use rustix::termios::Winsize;
use tokio::sync::mpsc;

use self::channel::{Channel, Ends, Input};
use super::{CallEnd, CallFailed, CallServer, HEARTBEAT, Replies};
use crate::executor::{Beside, BesideError, Stdio, exit_code};
use crate::input::{AllocView, Liveness};
use crate::keeper_events;
use crate::keeper_link::CallError;

/// Frames of the caller that wait.
const INPUTS_MAX: usize = 16;
/// How often a caller that sends nothing any more is asked whether it still listens.
const PROBE: Duration = Duration::from_millis(250);
/// How long output that others still hold open is waited for after the process ended.
const DRAIN_MAX: Duration = Duration::from_millis(500);

impl CallServer {
    pub(super) async fn exec(
        &self,
        view: &AllocView,
        request: v1::ExecRequest,
        reader: FrameReader,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let target = alive(view, &request.task)?;
        let Some((command, args)) = request.command.split_first() else {
            return Err(CallFailed::bad("no command").into());
        };
        let into = ExecInto {
            command: command.clone(),
            args: args.to_vec(),
            terminal: if request.tty {
                Terminal::StandardInput
            } else {
                Terminal::None
            },
        };
        let (channel, ends) = if request.tty {
            channel::terminal()
        } else {
            channel::pipes()
        }
        .map_err(|error| CallFailed::internal(&error))?;
        let Ends {
            stdin,
            stdout,
            stderr,
        } = ends;
        let beside =
            Beside::new(&self.executor, target).map_err(|error| CallFailed::internal(&error))?;
        let stdio = Stdio::Descriptors([stdin, stdout, stderr]);
        let ended = match beside.start(&into, stdio).await {
            Ok(events) => self.converse(channel, events, reader, replies).await,
            Err(BesideError::Keeper(CallError::ShuttingDown)) => Err(CallEnd::Gone),
            Err(error) => Err(CallFailed::internal(&error).into()),
        };
        beside.end().await;
        ended
    }

    async fn converse(
        &self,
        channel: Channel,
        mut events: mpsc::Receiver<Event>,
        reader: FrameReader,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let Channel {
            mut input,
            mut outputs,
        } = channel;
        let mut inputs = read_inputs(reader);
        let mut beat = tokio::time::interval(HEARTBEAT);
        let (mut code, mut listening) = (None, Listening::Yes);
        let drained = tokio::time::sleep(Duration::MAX);
        tokio::pin!(drained);
        loop {
            if let Some(code) = code
                && outputs.is_drained()
            {
                return send(replies, Output::ExitCode(code)).await;
            }
            tokio::select! {
                biased;
                output = outputs.next(), if !outputs.is_drained() => {
                    if let Some(output) = output {
                        send(replies, output).await?;
                    }
                }
                event = events.recv(), if code.is_none() => {
                    match event {
                        None => {
                            let problem = "keeper was replaced, and what became of the process \
                                           is not known";
                            return Err(CallFailed::new(500, problem).into());
                        }
                        Some(Event::Started { .. }) => {}
                        Some(Event::Exited { exit, .. }) => {
                            code = Some(exit_code(exit.status));
                            drained.as_mut().reset(tokio::time::Instant::now() + DRAIN_MAX);
                        }
                        Some(failed @ Event::SpawnFailed { .. }) => {
                            return Err(spawn_failed(failed));
                        }
                    }
                }
                // Beside the output, not before it: many a process reads no more before its output
                // is read.
                () = input.hand_on(), if code.is_none() && input.is_pending() => {}
                said = inputs.recv(),
                    if code.is_none() && listening == Listening::Yes && !input.is_pending() =>
                {
                    match said {
                        Some(said) => take(&mut input, said),
                        // Either it has said everything, or it went away: ask soon.
                        None => {
                            listening = Listening::No;
                            beat = tokio::time::interval(PROBE);
                        }
                    }
                }
                () = &mut drained, if code.is_some() => outputs.close(),
                _ = beat.tick() => replies.heartbeat().await?,
            }
        }
    }
}

/// Whether the caller may still send something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listening {
    Yes,
    No,
}

fn alive(view: &AllocView, task: &str) -> Result<RunKey, CallFailed> {
    if view.spec.task(task).is_none() {
        return Err(CallFailed::not_found(format!("unknown task name {task:?}")));
    }
    view.runs
        .iter()
        .find(|(run, liveness)| run.task == task && *liveness == Liveness::Alive)
        .map(|(run, _)| run.clone())
        .ok_or_else(|| CallFailed::bad(format!("task {task:?} is not running")))
}

/// Reading frames is not cancel-safe, so it has a task of its own; it ends with the stream.
fn read_inputs(mut reader: FrameReader) -> mpsc::Receiver<v1::ExecInput> {
    let (inputs, received) = mpsc::channel(INPUTS_MAX);
    tokio::spawn(async move {
        while let Ok(Some(frame)) = reader.read().await {
            let Ok(input) = from_frame(frame.kind, frame.body) else {
                return;
            };
            if inputs.send(input).await.is_err() {
                return;
            }
        }
    });
    received
}

fn take(input: &mut Input, said: v1::ExecInput) {
    use v1::exec_input::Input as Said;
    match said.input {
        Some(Said::Stdin(bytes)) => input.put(bytes),
        Some(Said::StdinClose(_)) => input.close(),
        Some(Said::TtySize(v1::TtySize { height, width })) => {
            let cells = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
            input.resize(Winsize {
                ws_row: cells(height),
                ws_col: cells(width),
                ws_xpixel: 0,
                ws_ypixel: 0,
            });
        }
        Some(Said::Heartbeat(_)) | None => {}
    }
}

async fn send(replies: &mut Replies, output: Output) -> Result<(), CallEnd> {
    let output = v1::ExecOutput {
        output: Some(output),
    };
    replies.send(Reply::Exec(output)).await
}

fn spawn_failed(event: Event) -> CallEnd {
    let (_, event) = keeper_events::run_event(event);
    let message = match event {
        noded_core::event::RunEvent::StartFailed { message, .. } => message,
        _ => "it did not start".to_owned(),
    };
    CallFailed::new(400, message).into()
}
