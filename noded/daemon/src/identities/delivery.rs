//! A token's way to its task: the file, then the event.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;
use noded_core::effect::PrepareTask;
use noded_core::event::RunEvent;
use noded_core::identities::{HeldToken, Jwt};
use noded_core::{Event, RunKey};
use protocol_model::TaskEventKind;

use super::IdentityService;
use crate::input::Input;

/// The outcome of writing the files of a task's identities.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TokenFile {
    /// Identities whose file had another token before.
    pub replaced: BTreeSet<String>,
    /// The problems, each with its identity: the file is as before.
    pub problems: Vec<String>,
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
    /// A run is followed from now on: tokens that are held already are in its files.
    pub async fn catch_up(&self, files: Arc<dyn IdentityFiles>, prepare: Arc<PrepareTask>) {
        self.deliver(files, prepare, BTreeSet::new()).await;
    }

    /// Writes the tokens of a run that is alive, and tells of those that take the place of others:
    /// `renewed`, and every one whose file had another token.
    pub(super) async fn deliver(
        &self,
        files: Arc<dyn IdentityFiles>,
        prepare: Arc<PrepareTask>,
        renewed: BTreeSet<String>,
    ) {
        let tokens = self.tokens_of(&prepare);
        let run = prepare.run.clone();
        let TokenFile {
            mut replaced,
            problems,
        } = files.write_files(prepare, tokens).await;
        for problem in problems {
            self.tell(&run, message(problem)).await;
        }
        replaced.extend(renewed);
        if !replaced.is_empty() {
            let names = replaced;
            self.tell(&run, RunEvent::IdentitiesRenewed { names }).await;
        }
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
