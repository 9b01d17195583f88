//! Following all sources of a node: each is asked for once, all are watched together, and those
//! that moved are asked for again.
//!
//! ```text
//!   new session, new read --ask (4 tasks at a time)--> answers, index
//!            ^                                            |
//!            | moved, a new read                          v
//!            +------------------------------- watch (2,500 a question)
//! ```
//!
//! A session's connection has few streams, so that no source has one of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use noded_core::Event;
use noded_core::event::RunEvent;
use noded_template::{Variable, VariableId};
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::query_request::Query;
use serde::Deserialize;

use super::{Answer, Source, TaskId, Variables};
use crate::input::Input;
use crate::queries::{ANSWER_MAX, AskError, LiveSession};

/// How long one question waits for a change before it is asked again.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// From a failed question to the next one, doubled up to the second.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// From one change to the look for the next: those within it are asked for together.
const ROUND_MIN: Duration = Duration::from_millis(50);
/// Tasks whose sources are asked for at a time.
const ASKED_MAX: usize = 4;
/// Sources of one watching question: as many as a server takes.
const WATCHED_MAX: usize = 2_500;
/// Watching questions. Sources beyond 10,000 are asked for in each session, and not watched.
const WATCHES_MAX: usize = 4;

/// A variable as the API shows it, as far as templates read it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct ApiVariable {
    items: Option<std::collections::BTreeMap<String, String>>,
    create_index: u64,
    modify_index: u64,
}

/// A source, and the index of its newest answer; 0 = it is to be asked for.
#[derive(Debug)]
struct Followed {
    task: TaskId,
    source: Source,
    known_index: u64,
}

impl Variables {
    pub(super) async fn keep_following(self: Arc<Self>) {
        let mut sessions = self.queries.sessions();
        loop {
            let session = sessions.borrow_and_update().clone();
            let following = async {
                match session {
                    Some(session) if session.serves_queries() => {
                        self.forget_indexes();
                        self.follow_in(&session).await;
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

    async fn follow_in(&self, session: &LiveSession) {
        let mut pause = RETRY_MIN;
        loop {
            let has_all = self.ask_all(session).await;
            if has_all {
                pause = RETRY_MIN;
            }
            let retry = async {
                match has_all {
                    true => std::future::pending().await,
                    false => tokio::time::sleep(pause).await,
                }
            };
            tokio::select! {
                () = self.added.notified() => {}
                () = self.watch(session) => {}
                () = retry => pause = (pause * 2).min(RETRY_MAX),
            }
        }
    }

    /// Asks for every source without an answer of this session. Returns whether all were answered.
    async fn ask_all(&self, session: &LiveSession) -> bool {
        let wanted: Vec<Followed> = self.followed(|index| index == 0);
        let tasks = wanted.chunk_by(|one, next| one.task == next.task);
        let mut waiting = tasks.map(|sources| self.ask_for_task(session, sources));
        let mut asked: FuturesUnordered<_> = waiting.by_ref().take(ASKED_MAX).collect();
        let mut has_all = true;
        while let Some(answered) = asked.next().await {
            has_all &= answered;
            asked.extend(waiting.next());
        }
        has_all
    }

    /// Asks for sources of one task and takes the answers together: one write may have moved
    /// several, and its task is told of it once.
    async fn ask_for_task(&self, session: &LiveSession, sources: &[Followed]) -> bool {
        let mut answers = Vec::new();
        for one in sources {
            if let Some((answer, index)) = self.ask(session, one).await {
                self.note_index(one, index);
                answers.push((&one.source, answer));
            }
        }
        let has_all = answers.len() == sources.len();
        if let Some(first) = sources.first() {
            self.take(&first.task, answers).await;
        }
        has_all
    }

    /// The variables of a source, and the index of the answer.
    async fn ask(&self, session: &LiveSession, one: &Followed) -> Option<(Answer, u64)> {
        let query = Query::Template(question(one));
        match self.queries.ask_in(session, query, ANSWER_MAX).await {
            Ok(Reply::Template(reply)) => match read(&reply) {
                Ok(answer) => return Some((answer, reply.index)),
                Err(error) => tracing::warn!(%error, "variables of the server are not used"),
            },
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "no variables for templates"),
        }
        None
    }

    /// Waits until a source has moved: it is to be asked for from then on.
    async fn watch(&self, session: &LiveSession) {
        let watched = self.followed(|index| index != 0);
        let surplus = watched.len().saturating_sub(WATCHED_MAX * WATCHES_MAX);
        if surplus > 0 {
            tracing::warn!(
                surplus,
                "templates of this node read too many variables to follow all"
            );
        }
        let mut questions = FuturesUnordered::new();
        for part in watched.chunks(WATCHED_MAX).take(WATCHES_MAX) {
            questions.push(self.watch_part(session, part));
        }
        if questions.next().await.is_none() {
            // A new read ends this.
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(ROUND_MIN).await;
    }

    async fn watch_part(&self, session: &LiveSession, part: &[Followed]) {
        let queries = part.iter().map(question).collect();
        let query = Query::TemplateWatch(v1::TemplateWatch { queries });
        match self.queries.ask_in(session, query, WAIT_MAX).await {
            Ok(Reply::Moved(moved)) => {
                for position in moved.positions {
                    let position = usize::try_from(position).unwrap_or(usize::MAX);
                    if let Some(one) = part.get(position) {
                        self.note_index(one, 0);
                    }
                }
            }
            Err(AskError::Silent { .. }) => {}
            other => {
                let error = other.err().unwrap_or(AskError::Unexpected);
                tracing::debug!(%error, "variables of templates are not watched");
                tokio::time::sleep(RETRY_MAX).await;
            }
        }
    }

    /// The sources whose index fits.
    fn followed(&self, fits: impl Fn(u64) -> bool) -> Vec<Followed> {
        let tasks = self.tasks.lock();
        let reads = tasks.iter().flat_map(|(task, reads)| {
            let reads = reads.reads.iter();
            reads.map(move |(source, read)| (task, source, read.known_index))
        });
        let reads = reads.filter(|(_, _, index)| fits(*index));
        reads
            .map(|(task, source, known_index)| Followed {
                task: task.clone(),
                source: source.clone(),
                known_index,
            })
            .collect()
    }

    /// Another server, or one with a restored state, has other indexes.
    fn forget_indexes(&self) {
        for reads in self.tasks.lock().values_mut() {
            for read in reads.reads.values_mut() {
                read.known_index = 0;
            }
        }
    }

    fn note_index(&self, one: &Followed, index: u64) {
        let mut tasks = self.tasks.lock();
        let reads = tasks.get_mut(&one.task);
        if let Some(read) = reads.and_then(|reads| reads.reads.get_mut(&one.source)) {
            read.known_index = index;
        }
    }

    /// Answers came: the hook that waits looks again, and the run that lives is told.
    async fn take(&self, task: &TaskId, answers: Vec<(&Source, Answer)>) {
        let told = {
            let mut tasks = self.tasks.lock();
            let Some(reads) = tasks.get_mut(task) else {
                return;
            };
            let mut changed = BTreeSet::new();
            let mut is_news = false;
            for (source, answer) in answers {
                let Some(read) = reads.reads.get_mut(source) else {
                    continue;
                };
                if read.answer.as_ref() == Some(&answer) {
                    continue;
                }
                is_news = true;
                read.answer = Some(answer);
                read.offsets.values_mut().for_each(|newest| *newest = false);
                changed.extend(read.offsets.keys().copied());
            }
            if !is_news {
                return;
            }
            reads.news.send_modify(|count| *count += 1);
            reads.run.clone().map(|run| (run, changed))
        };
        if let Some((run, changed)) = told {
            let event = RunEvent::TemplatesChanged { offsets: changed };
            // A loop that ended no longer wants to know.
            let _ = self
                .inputs
                .send(Input::Event(Event::Run { run, event }))
                .await;
        }
    }
}

fn question(one: &Followed) -> v1::TemplateQuery {
    let Followed {
        task: (alloc, task),
        source,
        known_index,
    } = one;
    let located = |id: &VariableId| v1::VariableSource {
        namespace: id.namespace.clone(),
        path: id.path.clone(),
    };
    v1::TemplateQuery {
        alloc_id: alloc.as_bytes().to_vec().into(),
        task: task.clone(),
        known_index: *known_index,
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
