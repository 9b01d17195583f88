//! A token's way to its task: the file, then the event.
//!
//! ```text
//!   renewed --keep (undelivered)--> file --event--> keep (delivered)
//!                                    | full, planted link
//!                                    `--> the old file stays, an event; again every 10 s
//! ```
//!
//! A daemon that is killed in between leaves the rest to the next one, which tells the task once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use noded_core::effect::PrepareTask;
use noded_core::event::RunEvent;
use noded_core::identities::{HeldToken, Jwt};
use noded_core::{Event, RunKey};
use protocol_model::TaskEventKind;

use super::IdentityService;
use crate::input::Input;

/// From one attempt to write the files of a task to the next.
const RETRY: Duration = Duration::from_secs(10);

/// The outcome of writing the files of a task's identities.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TokenFile {
    /// Identities whose file had another token before.
    pub replaced: BTreeSet<String>,
    /// The problems by identity: its file is as before.
    pub problems: BTreeMap<String, String>,
}

/// The files of identities on a host.
pub trait IdentityFiles: Debug + Send + Sync {
    /// Writes the files of identities that differ from these tokens, by name.
    fn write_files(
        self: Arc<Self>,
        prepare: Arc<PrepareTask>,
        tokens: BTreeMap<String, Jwt>,
    ) -> BoxFuture<'static, TokenFile>;
}

/// A host without files, which simulates tasks.
#[derive(Debug)]
pub struct NoFiles;

impl IdentityFiles for NoFiles {
    fn write_files(
        self: Arc<Self>,
        _prepare: Arc<PrepareTask>,
        _tokens: BTreeMap<String, Jwt>,
    ) -> BoxFuture<'static, TokenFile> {
        Box::pin(async { TokenFile::default() })
    }
}

impl IdentityService {
    /// A run is followed from now on: tokens that are held already are in its files, and it is told
    /// of those that it was not told of.
    pub async fn catch_up(
        self: &Arc<Self>,
        files: Arc<dyn IdentityFiles>,
        prepare: Arc<PrepareTask>,
    ) {
        let alloc = prepare.run.alloc;
        if self.deliver_or_retry(files, prepare).await {
            self.keep(alloc).await;
        }
    }

    /// Delivers the tokens of a run that is alive. Problems are events, and files that could not be
    /// written are tried again. Returns whether the run was told of a token.
    pub(super) async fn deliver_or_retry(
        self: &Arc<Self>,
        files: Arc<dyn IdentityFiles>,
        prepare: Arc<PrepareTask>,
    ) -> bool {
        let (is_told, problems) = self.deliver(Arc::clone(&files), Arc::clone(&prepare)).await;
        if problems.is_empty() {
            return is_told;
        }
        let run = &prepare.run;
        for (name, problem) in problems {
            let text = format!("Identity[{name}]: {problem}; the token of before stays");
            self.tell(run, message(text)).await;
        }
        let task = (run.alloc, run.task.clone());
        if self.state.lock().retrying.insert(task) {
            tokio::spawn(Arc::clone(self).retry(files, prepare));
        }
        is_told
    }

    async fn retry(self: Arc<Self>, files: Arc<dyn IdentityFiles>, prepare: Arc<PrepareTask>) {
        let task = (prepare.run.alloc, prepare.run.task.clone());
        loop {
            tokio::time::sleep(RETRY).await;
            let followed = self.state.lock().followed.get(&task).cloned();
            let Some(followed) = followed else {
                break;
            };
            let (is_told, problems) = self.deliver(Arc::clone(&files), followed).await;
            if is_told {
                self.keep(task.0).await;
            }
            if problems.is_empty() {
                break;
            }
        }
        self.state.lock().retrying.remove(&task);
    }

    /// Writes the tokens of a run that is alive, and tells of those that take the place of others
    /// and are in their files. Returns whether there was one, and the problems by identity.
    async fn deliver(
        &self,
        files: Arc<dyn IdentityFiles>,
        prepare: Arc<PrepareTask>,
    ) -> (bool, BTreeMap<String, String>) {
        let mut tokens = self.tokens_of(&prepare);
        let run = prepare.run.clone();
        let written = files.write_files(prepare, tokens.clone()).await;
        let TokenFile {
            replaced: mut names,
            problems,
        } = written;
        tokens.retain(|name, _| !problems.contains_key(name));
        {
            let state = self.state.lock();
            let undelivered = |name: &&String| {
                let key = super::key_of(&run, name);
                state.undelivered.contains(&key)
            };
            names.extend(tokens.keys().filter(undelivered).cloned());
        }
        let is_told = !names.is_empty();
        if is_told {
            self.tell(&run, RunEvent::IdentitiesRenewed { names }).await;
        }
        self.mark_delivered(&run, &tokens);
        (is_told, problems)
    }

    /// A token of a run has expired, and no server signed another one.
    pub(super) async fn tell_expired(&self, run: &RunKey, identity: &str) {
        let text = format!(
            "Identity[{identity}]: the token expired before a server signed another one; it stays \
             where it is"
        );
        self.tell(run, message(text)).await;
    }

    fn tokens_of(&self, prepare: &PrepareTask) -> BTreeMap<String, Jwt> {
        let state = self.state.lock();
        let names = prepare.identities.iter().map(|identity| &identity.name);
        names
            .filter_map(|name| {
                let key = super::key_of(&prepare.run, name);
                let HeldToken { jwt, .. } = state.machine.token(&key)?;
                Some((name.clone(), jwt.clone()))
            })
            .collect()
    }

    async fn tell(&self, run: &RunKey, event: RunEvent) {
        let run = run.clone();
        // A loop that ended no longer wants to know.
        let _ = self
            .inputs
            .send(Input::Event(Event::Run { run, event }))
            .await;
    }
}

fn message(message: String) -> RunEvent {
    let kind = TaskEventKind::HookFailed;
    RunEvent::Message { kind, message }
}
