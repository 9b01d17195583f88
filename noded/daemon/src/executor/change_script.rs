//! Change scripts of templates: a program beside the task, with a time limit.

use std::sync::Arc;
use std::time::Duration;

use isolation::{ExecInto, Terminal};
use noded_core::Event;
use noded_core::effect::ChangeScriptRun;
use noded_core::event::{RunEvent, ScriptEnd};
use noded_keeper::protocol::Event as KeeperEvent;
use protocol_error_chain::chain;
use tokio::sync::mpsc;

use super::Executor;
use super::beside::{Beside, Stdio, exit_code};
use crate::input::Input;
use crate::keeper_events;

impl Executor {
    /// Runs a script without holding up its task's lane: a stop does not wait for it.
    pub(super) fn begin_script(self: &Arc<Self>, script: ChangeScriptRun) {
        let own = Arc::clone(self);
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let (run, offset) = (script.run.clone(), script.offset);
            let ended = tokio::spawn(async move { own.run_script(script).await });
            let end = ended.await.unwrap_or_else(|error| {
                tracing::error!(%run, %error, "a change script was given up");
                let message = "noded failed inside; its log has more".to_owned();
                ScriptEnd::Failed { message }
            });
            let event = RunEvent::ScriptEnded { offset, end };
            // A loop that ended no longer wants to know.
            let _ = inputs.send(Input::Event(Event::Run { run, event })).await;
        });
    }

    async fn run_script(self: Arc<Self>, script: ChangeScriptRun) -> ScriptEnd {
        let failed = |message: String| ScriptEnd::Failed { message };
        let beside = match Beside::new(&self, script.run) {
            Ok(beside) => beside,
            Err(error) => return failed(chain(&error)),
        };
        let into = ExecInto {
            command: script.command,
            args: script.args,
            terminal: Terminal::None,
        };
        let end = match beside.start(&into, Stdio::Null).await {
            Ok(events) => end_of(events, script.timeout).await,
            Err(error) => failed(chain(&error)),
        };
        // Kills it where its time is over.
        beside.end().await;
        end
    }
}

async fn end_of(mut events: mpsc::Receiver<KeeperEvent>, timeout: Duration) -> ScriptEnd {
    let failed = |message: &str| ScriptEnd::Failed {
        message: message.to_owned(),
    };
    let ended = async {
        while let Some(event) = events.recv().await {
            match event {
                KeeperEvent::Started { .. } => {}
                KeeperEvent::Exited { exit, .. } => {
                    let code = exit_code(exit.status);
                    return ScriptEnd::Exited { code };
                }
                KeeperEvent::SpawnFailed { .. } => {
                    return match keeper_events::run_event(event) {
                        (_, RunEvent::StartFailed { message, .. }) => failed(&message),
                        _ => failed("it did not start"),
                    };
                }
            }
        }
        failed("keeper was replaced, and what became of the process is not known")
    };
    tokio::time::timeout(timeout, ended)
        .await
        .unwrap_or_else(|_| failed(&format!("not done within {} s", timeout.as_secs_f64())))
}
