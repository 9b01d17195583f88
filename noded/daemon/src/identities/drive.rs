//! The loop that carries out what the machine asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use noded_core::effect::PrepareTask;
use noded_core::identities::{Delivery, IdentityKey, IdentityStep, QueryId};
use protocol_model::AllocId;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::query_request::Query;

use super::{IdentityFiles, IdentityService, convert};
use crate::queries::{ANSWER_MAX, AskError, LiveSession};

impl IdentityService {
    /// Asks, renews and delivers. Ends never.
    pub async fn run(self: Arc<Self>, files: Arc<dyn IdentityFiles>) {
        let mut sessions = self.queries.sessions();
        let mut session = sessions.borrow_and_update().clone();
        self.on_session(session.as_ref());
        loop {
            let steps = self.drain();
            self.take(steps, session.as_ref(), &files).await;
            let timer = self.timer();
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep(timer) => {
                    let now = self.clock.moment();
                    self.state.lock().machine.on_timeout(now);
                }
                changed = sessions.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    session = sessions.borrow_and_update().clone();
                    self.on_session(session.as_ref());
                }
            }
        }
    }

    fn on_session(&self, session: Option<&LiveSession>) {
        let now = self.clock.moment();
        let is_live = session.is_some_and(LiveSession::serves_queries);
        let mut state = self.state.lock();
        state.machine.on_session(is_live, now);
        match session {
            None => AskError::NoSession
                .to_string()
                .clone_into(&mut state.problem),
            Some(session) if !is_live => {
                let error = AskError::OldServer {
                    address: session.address.clone(),
                    protocol: session.protocol,
                };
                state.problem = error.to_string();
            }
            Some(_) => state.problem.clear(),
        }
    }

    fn drain(&self) -> Vec<IdentityStep> {
        let mut state = self.state.lock();
        std::iter::from_fn(|| state.machine.poll_step()).collect()
    }

    fn timer(&self) -> Duration {
        let idle = Duration::from_secs(3600);
        let due = self.state.lock().machine.poll_timeout();
        due.map_or(idle, |at| at.since(self.clock.moment()))
    }

    async fn take(
        self: &Arc<Self>,
        steps: Vec<IdentityStep>,
        session: Option<&LiveSession>,
        files: &Arc<dyn IdentityFiles>,
    ) {
        // The tasks that tokens came for, by allocation.
        let mut arrived: BTreeMap<AllocId, BTreeSet<String>> = BTreeMap::new();
        for step in steps {
            match step {
                IdentityStep::Ask { query, names } => {
                    if let Some(session) = session {
                        tokio::spawn(Arc::clone(self).ask(session.clone(), query, names));
                    }
                }
                IdentityStep::Signed { key, delivery } => {
                    arrived
                        .entry(key.alloc)
                        .or_default()
                        .insert(key.task.clone());
                    let mut state = self.state.lock();
                    state.rejections.remove(&key);
                    if delivery == Delivery::Renewed {
                        state.undelivered.insert(key);
                    }
                }
                IdentityStep::Rejected { key, rejection } => {
                    self.state.lock().rejections.insert(key, rejection);
                }
                IdentityStep::Expired { key } => {
                    if let Some(prepare) = self.followed(&key) {
                        self.tell_expired(&prepare.run, &key.identity).await;
                        self.keep(key.alloc).await;
                    }
                }
            }
        }
        self.news.send_modify(|count| *count += 1);
        for (alloc, tasks) in arrived {
            let (own, files) = (Arc::clone(self), Arc::clone(files));
            tokio::spawn(async move { own.arrive(alloc, tasks, files).await });
        }
    }

    /// The newest tokens are kept before their files are written, and once more when their tasks
    /// were told: a daemon that is killed in between goes on with the newest.
    async fn arrive(
        self: &Arc<Self>,
        alloc: AllocId,
        tasks: BTreeSet<String>,
        files: Arc<dyn IdentityFiles>,
    ) {
        self.keep(alloc).await;
        let mut is_told = false;
        for task in tasks {
            let key = IdentityKey::new(alloc, task, "");
            if let Some(prepare) = self.followed(&key) {
                is_told |= self.deliver_or_retry(Arc::clone(&files), prepare).await;
            }
        }
        if is_told {
            self.keep(alloc).await;
        }
    }

    fn followed(&self, key: &IdentityKey) -> Option<Arc<PrepareTask>> {
        let task = (key.alloc, key.task.clone());
        self.state.lock().followed.get(&task).cloned()
    }

    async fn ask(self: Arc<Self>, session: LiveSession, query: QueryId, names: Vec<IdentityKey>) {
        let question = Query::SignIdentities(convert::question(&names));
        let asked = self.queries.ask_in(&session, question, ANSWER_MAX).await;
        let now = self.clock.moment();
        {
            let mut state = self.state.lock();
            match asked {
                Ok(Reply::Signed(signed)) => {
                    state.problem.clear();
                    state.machine.on_answer(query, convert::answer(signed), now);
                }
                other => {
                    let error = other.err().unwrap_or(AskError::Unexpected);
                    tracing::debug!(%error, identities = names.len(), "no identities were signed");
                    state.problem = error.to_string();
                    state.machine.on_failure(query, now);
                }
            }
        }
        self.wake.notify_one();
    }
}
