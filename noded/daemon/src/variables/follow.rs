//! Following one source: in every session the first question waits for nothing, each further one
//! for a change.

use std::sync::Arc;
use std::time::Duration;

use noded_core::Event;
use noded_core::event::RunEvent;
use noded_template::{Variable, VariableId};
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::query_request::Query;
use serde::Deserialize;

use super::{Answer, Source, TaskId, Variables};
use crate::input::Input;
use crate::queries::{AskError, LiveSession};

/// How long one question waits for a change before it is asked again.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Between two questions that failed, doubled up to the second.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A variable as the API shows it, as far as templates read it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct ApiVariable {
    items: Option<std::collections::BTreeMap<String, String>>,
    create_index: u64,
    modify_index: u64,
}

impl Variables {
    pub(super) async fn keep_following(self: Arc<Self>, task: TaskId, source: Source) {
        let mut sessions = self.queries.sessions();
        loop {
            let session = sessions.borrow_and_update().clone();
            let following = async {
                match session {
                    Some(session) if session.serves_queries() => {
                        self.follow_in(&session, &task, &source).await;
                    }
                    Some(_) | None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = following => {}
                changed = sessions.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    async fn follow_in(&self, session: &LiveSession, task: &TaskId, source: &Source) {
        let (mut known, mut pause) = (0, RETRY_MIN);
        loop {
            let query = Query::Template(question(task, source, known));
            match self.queries.ask_in(session, query, WAIT_MAX).await {
                Ok(Reply::Template(reply)) if reply.index > known => match read(&reply) {
                    Ok(answer) => {
                        (known, pause) = (reply.index, RETRY_MIN);
                        self.take(task, source, answer).await;
                        continue;
                    }
                    Err(error) => tracing::warn!(%error, "variables of the server are not used"),
                },
                Err(AskError::Silent { .. }) => continue,
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "no variables for templates"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    /// An answer came: the hook that waits looks again, and the run that lives is told.
    async fn take(&self, task: &TaskId, source: &Source, answer: Answer) {
        let told = {
            let mut tasks = self.tasks.lock();
            let Some(reads) = tasks.get_mut(task) else {
                return;
            };
            let run = reads.run.clone();
            let Some(read) = reads.reads.get_mut(source) else {
                return;
            };
            if read.answer.as_ref() == Some(&answer) {
                return;
            }
            read.answer = Some(answer);
            read.offsets.values_mut().for_each(|newest| *newest = false);
            let offsets = read.offsets.keys().copied().collect();
            reads.news.send_modify(|count| *count += 1);
            run.map(|run| (run, offsets))
        };
        if let Some((run, offsets)) = told {
            let event = RunEvent::TemplatesChanged { offsets };
            // A loop that ended no longer wants to know.
            let _ = self
                .inputs
                .send(Input::Event(Event::Run { run, event }))
                .await;
        }
    }
}

fn question((alloc, task): &TaskId, source: &Source, known_index: u64) -> v1::TemplateQuery {
    let located = |id: &VariableId| v1::VariableSource {
        namespace: id.namespace.clone(),
        path: id.path.clone(),
    };
    v1::TemplateQuery {
        alloc_id: alloc.as_bytes().to_vec().into(),
        task: task.clone(),
        known_index,
        source: Some(match source {
            Source::Variable(id) => v1::template_query::Source::Variable(located(id)),
            Source::List(id) => v1::template_query::Source::Variables(located(id)),
        }),
    }
}

fn read(reply: &v1::TemplateReply) -> Result<Answer, serde_json::Error> {
    let variables = reply.variables.iter();
    variables
        .map(|variable| {
            let ApiVariable {
                items,
                create_index,
                modify_index,
            } = serde_json::from_slice(&variable.json)?;
            Ok(Variable {
                path: variable.path.clone(),
                namespace: variable.namespace.clone(),
                items: items.unwrap_or_default(),
                create_index,
                modify_index,
            })
        })
        .collect()
}
