//! What operators want done: collect, restart, signal.

use noded_core::NotCollected;
use noded_core::alloc_runner::{CommandError, RestartScope, SignalScope};
use protocol_error_chain::chain;
use protocol_model::AllocId;
use protocol_wire::v1;
use tokio::sync::oneshot;

use super::{CallEnd, CallFailed, CallServer, Replies, alloc_of};
use crate::input::Question;
use crate::os_signal;

impl CallServer {
    /// Whatever of the node's allocations has ended, and is known to have, goes; or the one that is
    /// named.
    pub(super) async fn collect_garbage(&self, alloc_id: &[u8]) -> Result<(), CallEnd> {
        if !alloc_id.is_empty() {
            return self.collect_alloc(alloc_of(alloc_id)?).await;
        }
        let (answer, begun) = oneshot::channel();
        self.ask(Question::CollectGarbage { answer }).await?;
        begun.await.map_err(|_| CallEnd::Gone)
    }

    async fn collect_alloc(&self, alloc: AllocId) -> Result<(), CallEnd> {
        let (answer, result) = oneshot::channel();
        self.ask(Question::CollectAlloc { alloc, answer }).await?;
        let refused = match result.await.map_err(|_| CallEnd::Gone)? {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        let status = match refused {
            NotCollected::Unknown(_) => 404,
            NotCollected::NotEnded(_) => 400,
            NotCollected::NotRecorded(_) => 503,
        };
        Err(CallFailed::new(status, refused.to_string()).into())
    }

    pub(super) async fn restart(
        &self,
        alloc: AllocId,
        request: v1::RestartRequest,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let v1::RestartRequest { task, all_tasks } = request;
        let scope = match (task.as_str(), all_tasks) {
            ("", true) => RestartScope::All,
            ("", false) => RestartScope::Running,
            (_, false) => RestartScope::Task(task),
            (_, true) => {
                let problem = "a task cannot be named when all tasks are meant";
                return Err(CallFailed::bad(problem).into());
            }
        };
        let (answer, result) = oneshot::channel();
        let question = Question::Restart {
            alloc,
            scope,
            answer,
        };
        self.ask(question).await?;
        done(result, replies).await
    }

    pub(super) async fn signal(
        &self,
        alloc: AllocId,
        request: v1::SignalRequest,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let v1::SignalRequest { task, signal } = request;
        if os_signal::number(&signal).is_none() {
            return Err(CallFailed::bad(format!("unknown signal {signal:?}")).into());
        }
        let scope = if task.is_empty() {
            SignalScope::Running
        } else {
            SignalScope::Task(task)
        };
        let (answer, result) = oneshot::channel();
        let question = Question::Signal {
            alloc,
            scope,
            signal,
            answer,
        };
        self.ask(question).await?;
        done(result, replies).await
    }
}

async fn done(
    result: oneshot::Receiver<Result<(), CommandError>>,
    replies: &mut Replies,
) -> Result<(), CallEnd> {
    match result.await.map_err(|_| CallEnd::Gone)? {
        Ok(()) => replies.json(&serde_json::json!({})).await,
        Err(error) => {
            let status = match &error {
                CommandError::UnknownAlloc { .. } | CommandError::UnknownTask { .. } => 404,
                CommandError::AllocStopping
                | CommandError::NothingRuns
                | CommandError::Task { .. } => 400,
            };
            Err(CallFailed::new(status, chain(&error)).into())
        }
    }
}
