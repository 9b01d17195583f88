//! `alloc exec`: one more process beside a task, in its namespaces and below its cgroup.
//!
//! ```text
//!   ExecInput --> stdin pipe or terminal --> process --> stdout, stderr --> ExecOutput
//!                                               `--> exit code, after all output
//! ```
//!
//! It belongs to its caller: when the caller goes away it is killed.

mod channel;

use std::os::fd::OwnedFd;
use std::time::Duration;

use isolation::{ExecInto, Terminal, plan_exec_into};
use noded_core::RunKey;
use noded_keeper::client::seal_plan;
use noded_keeper::protocol::{Event, ExitStatus, Request, SpawnRequest, StdioSource, TaskKey};
use protocol_transport::FrameReader;
use protocol_wire::kind::from_frame;
use protocol_wire::v1;
use protocol_wire::v1::exec_output::Output;
use protocol_wire::v1::node_reply::Reply;
use rustix::termios::Winsize;
use tokio::sync::mpsc;

use self::channel::{Channel, Ends, Input};
use super::{CallEnd, CallFailed, CallServer, HEARTBEAT, Replies};
use crate::executor::{cgroup_of, keeper_key};
use crate::input::{AllocView, Liveness};
use crate::keeper_events;
use crate::keeper_link::CallError;

const START_TIMEOUT_MS: u64 = 10_000;
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
        let id = uuid::Uuid::new_v4().simple().to_string();
        let key = TaskKey::new(target.alloc.to_string(), format!("exec-{id}"), 1)
            .map_err(|error| CallFailed::internal(&error))?;
        let beside = keeper_key(&target).ok_or_else(|| CallFailed::bad("the task has no name"))?;
        let beside = cgroup_of(&beside).map_err(|error| CallFailed::internal(&error))?;
        let cgroup = format!("{beside}/{}", key.task());
        let (channel, ends) = if request.tty {
            channel::terminal()
        } else {
            channel::pipes()
        }
        .map_err(|error| CallFailed::internal(&error))?;
        let (spawn, descriptors) =
            self.exec_request(&target, &request, &key, cgroup.clone(), ends)?;
        let path = self.cgroup_path(&cgroup);
        std::fs::create_dir(&path).map_err(|error| CallFailed::internal(&error))?;
        let events = self.executor.keeper.open_session(key.clone());
        let guard = Guard {
            server: self,
            key: key.clone(),
        };
        let started = self.executor.keeper.call(spawn, descriptors).await;
        let ended = match started {
            Ok(_) => self.converse(channel, events, reader, replies).await,
            Err(CallError::ShuttingDown) => Err(CallEnd::Gone),
            Err(error) => Err(CallFailed::internal(&error).into()),
        };
        drop(guard);
        self.clean_up(key, path).await;
        ended
    }

    fn exec_request(
        &self,
        target: &RunKey,
        request: &v1::ExecRequest,
        key: &TaskKey,
        cgroup: String,
        ends: Ends,
    ) -> Result<(Request, Vec<OwnedFd>), CallEnd> {
        let Some((command, args)) = request.command.split_first() else {
            return Err(CallFailed::bad("no command").into());
        };
        let kept = self.executor.sandboxes.find(target).ok_or_else(|| {
            CallFailed::new(500, "what the task was started with is not known any more")
        })?;
        let into = ExecInto {
            command: command.clone(),
            args: args.to_vec(),
            terminal: if request.tty {
                Terminal::StandardInput
            } else {
                Terminal::None
            },
        };
        let plan =
            plan_exec_into(&kept.spec, &into).map_err(|error| CallFailed::internal(&error))?;
        let sealed = seal_plan(&plan).map_err(|error| CallFailed::internal(&error))?;
        let Ends {
            stdin,
            stdout,
            stderr,
        } = ends;
        let at = |position| StdioSource::Descriptor { position };
        let spawn = SpawnRequest {
            key: key.clone(),
            cgroup,
            stdin: at(1),
            stdout: at(2),
            stderr: at(3),
            network: None,
            target: keeper_key(target),
            start_timeout_ms: START_TIMEOUT_MS,
        };
        Ok((Request::Spawn(spawn), vec![sealed, stdin, stdout, stderr]))
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

    fn cgroup_path(&self, cgroup: &str) -> std::path::PathBuf {
        let hierarchy = &self.executor.hierarchy;
        hierarchy
            .mount()
            .path
            .join(hierarchy.base())
            .join(isolation::cgroup::TASKS)
            .join(cgroup)
    }

    /// The process is dead, or dies now; nothing of it stays.
    async fn clean_up(&self, key: TaskKey, cgroup: std::path::PathBuf) {
        let keeper = &self.executor.keeper;
        let _answer = keeper
            .call(Request::Kill { key: key.clone() }, Vec::new())
            .await;
        for _ in 0..100 {
            match std::fs::remove_dir(&cgroup) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                // The task ended too, and took it along.
                Ok(()) | Err(_) => break,
            }
        }
        let _answer = keeper.call(Request::Acknowledge { key }, Vec::new()).await;
    }
}

/// Whether the caller may still send something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listening {
    Yes,
    No,
}

/// Its events go nowhere once the call is over, however it ends.
struct Guard<'a> {
    server: &'a CallServer,
    key: TaskKey,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.server.executor.keeper.close_session(&self.key);
    }
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

fn exit_code(status: ExitStatus) -> i32 {
    match status {
        ExitStatus::Code(code) => code,
        // As shells say it.
        ExitStatus::Signal { signal, .. } => 128 + signal.0,
        ExitStatus::Unknown => 255,
    }
}

fn spawn_failed(event: Event) -> CallEnd {
    let (_, event) = keeper_events::run_event(event);
    let message = match event {
        noded_core::event::RunEvent::StartFailed { message, .. } => message,
        _ => "it did not start".to_owned(),
    };
    CallFailed::new(400, message).into()
}
