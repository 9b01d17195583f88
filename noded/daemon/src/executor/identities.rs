//! The hook `Identity`, and the files of identities in the directories of their task.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};
use std::sync::Arc;

use futures::future::BoxFuture;
use isolation::Identity;
use noded_core::effect::{PrepareTask, PreparedIdentity, StartTask};
use noded_core::identities::Jwt;
use noded_core::{Event, RunKey};
use protocol_error_chain::chain;
use rustix::fs::OFlags;
use rustix::process::{Gid, Uid};
use tokio_util::sync::CancellationToken;

use super::Executor;
use super::prepare::Failed;
use crate::alloc_dir::FileAttributes;
use crate::identities::{IdentityFiles, ObtainError, TokenFile};

/// A larger file is no token's.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

impl Executor {
    /// The hook of an attempt: waits for the identities that the task shows and writes their files.
    /// Returns the variables of those that the environment shows.
    pub(super) async fn identity_hook(
        self: &Arc<Self>,
        prepare: &Arc<PrepareTask>,
        cancel: &CancellationToken,
    ) -> Result<BTreeMap<String, String>, Failed> {
        let obtained = self.identities.obtain(prepare, cancel).await;
        let tokens = obtained.map_err(|error| match error {
            ObtainError::Cancelled => Failed::cancelled(),
            error => Failed::possible(error.to_string()),
        })?;
        let tokens = tokens.into_iter().map(|(name, token)| (name, token.jwt));
        let tokens: BTreeMap<String, Jwt> = tokens.collect();
        let (own, of_files) = (Arc::clone(prepare), tokens.clone());
        let written = self
            .blocking(move |executor| executor.write_tokens(&own, &of_files))
            .await;
        if let Some((name, problem)) = written.problems.into_iter().next() {
            return Err(Failed::possible(format!("Identity[{name}]: {problem}")));
        }
        self.identities.mark_delivered(&prepare.run, &tokens);
        let variable = |identity: &PreparedIdentity| {
            let token = tokens.get(&identity.name)?;
            Some((identity.variable.clone()?, token.reveal().to_owned()))
        };
        Ok(prepare.identities.iter().filter_map(variable).collect())
    }

    /// A run is alive: its identities are kept fresh. Files that an earlier noded did not get to
    /// write are written now.
    pub(super) async fn follow_identities(self: &Arc<Self>, prepare: PrepareTask) -> Vec<Event> {
        let prepare = Arc::new(prepare);
        let files = Arc::<Self>::clone(self);
        self.identities.follow(Arc::clone(&prepare));
        self.identities.catch_up(files, prepare).await;
        Vec::new()
    }

    /// Writes the files of identities that differ from their tokens. Blocks.
    fn write_tokens(&self, prepare: &PrepareTask, tokens: &BTreeMap<String, Jwt>) -> TokenFile {
        let (mut replaced, mut problems) = (BTreeSet::new(), BTreeMap::new());
        for identity in &prepare.identities {
            let (Some(file), Some(token)) = (&identity.file, tokens.get(&identity.name)) else {
                continue;
            };
            match self.write_token(prepare, Path::new(file), token) {
                Ok(Before::Same | Before::Nothing) => {}
                Ok(Before::Another) => {
                    replaced.insert(identity.name.clone());
                }
                Err(problem) => {
                    problems.insert(identity.name.clone(), problem);
                }
            }
        }
        TokenFile { replaced, problems }
    }

    fn write_token(
        &self,
        prepare: &PrepareTask,
        file: &Path,
        token: &Jwt,
    ) -> Result<Before, String> {
        let before = self.token_before(&prepare.run, file)?;
        if before.as_deref() == Some(token.reveal().as_bytes()) {
            return Ok(Before::Same);
        }
        let owner = match self.owner_of_run(prepare)? {
            // A user that only the task's templates name, and the task runs.
            None => self.sandboxes.find(&prepare.run).map(|it| it.spec.identity),
            known => known,
        };
        let attributes = attributes(owner.as_ref());
        self.allocs
            .replace_file(
                prepare.run.alloc,
                file,
                token.reveal().as_bytes(),
                attributes,
            )
            .map_err(|error| chain(&error))?;
        Ok(match before {
            Some(_) => Before::Another,
            None => Before::Nothing,
        })
    }

    /// The files of a task whose user only its templates name: that is known now. Blocks.
    pub(super) fn give_tokens(&self, start: &StartTask, owner: &Identity) -> Result<(), String> {
        for identity in &start.identities {
            let Some(file) = identity.file.as_ref().map(Path::new) else {
                continue;
            };
            if let Some(token) = self.token_before(&start.run, file)? {
                self.allocs
                    .replace_file(start.run.alloc, file, &token, attributes(Some(owner)))
                    .map_err(|error| format!("Identity[{}]: {}", identity.name, chain(&error)))?;
            }
        }
        Ok(())
    }

    /// The bytes of a regular file in the directory of a run's task; `None` where there is none.
    fn token_before(&self, run: &RunKey, file: &Path) -> Result<Option<Vec<u8>>, String> {
        let below = file.strip_prefix(self.allocs.path_of(run.alloc)).ok();
        let is_own = |path: &&Path| {
            let mut parts = path.components();
            parts.next() == Some(Component::Normal(run.task.as_ref()))
                && parts.all(|part| matches!(part, Component::Normal(_)))
        };
        let below = below.filter(is_own).ok_or_else(|| {
            format!(
                "{} is not in the task's directory: name a file below secrets or local",
                file.display()
            )
        })?;
        Ok(self.small_file(run, below))
    }

    fn small_file(&self, run: &RunKey, below: &Path) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = self.allocs.open_beneath(run.alloc, below, flags).ok()?;
        let file = std::fs::File::from(file);
        file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let mut bytes = Vec::new();
        let mut bounded = std::io::Read::take(file, TOKEN_BYTES_MAX);
        std::io::Read::read_to_end(&mut bounded, &mut bytes).ok()?;
        Some(bytes)
    }
}

/// The attributes of a file that only its owner reads; `None` = root owns it.
fn attributes(owner: Option<&Identity>) -> FileAttributes {
    let owner = match owner {
        Some(Identity::User { uid, gid, .. }) => {
            Some((Some(Uid::from_raw(*uid)), Some(Gid::from_raw(*gid))))
        }
        Some(Identity::Keeper) | None => None,
    };
    FileAttributes { mode: 0o600, owner }
}

/// The file before it was written.
enum Before {
    Same,
    Another,
    Nothing,
}

impl IdentityFiles for Executor {
    fn write_files(
        self: Arc<Self>,
        prepare: Arc<PrepareTask>,
        tokens: BTreeMap<String, Jwt>,
    ) -> BoxFuture<'static, TokenFile> {
        Box::pin(async move {
            self.blocking(move |own| own.write_tokens(&prepare, &tokens))
                .await
        })
    }
}
