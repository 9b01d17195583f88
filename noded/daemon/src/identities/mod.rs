//! Identities of tasks: the shell around [`noded_core::identities`].
//!
//! ```text
//!   hook Identity --obtain--> +------------------+ --ask--> Queries (the server of the session)
//!   FollowIdentities -follow> | IdentityService  | --write-> IdentityFiles, the task's files
//!   ReleaseRun  -----pause--> |  { Identities }  | --event-> RunEvent::IdentitiesRenewed
//!   RetireAlloc -----forget-> +------------------+ --keep--> run_dir/identities/<alloc>
//! ```
//!
//! Tokens are in memory, in the task's file and environment, and in the kept file (tmpfs, 0600; on
//! the disk where the group may start while the node is cut off).
//! They are in no log line, event, report or journal.

mod convert;
mod delivery;
mod drive;
mod kept;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use noded_core::RunKey;
use noded_core::effect::PrepareTask;
use noded_core::identities::{HeldToken, Identities, IdentityKey, IdentityRejection, Jwt};
use parking_lot::Mutex;
use protocol_model::AllocId;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use delivery::{IdentityFiles, NoFiles, TokenFile};
pub use kept::KeptFiles;

use crate::clock::Clock;
use crate::input::Input;
use crate::queries::Queries;
use kept::{Keeping, KeptToken};

/// How long an attempt waits for its identities.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// Why an attempt has no identities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObtainError {
    /// None was signed in time.
    #[error("no server signed {name:?} within {}m{}", WAIT_MAX.as_secs() / 60, because(problem))]
    TimedOut {
        /// The identity.
        name: String,
        /// The problem with the newest question; empty = none was asked.
        problem: String,
    },
    /// The server does not sign it.
    #[error("the server does not sign {name:?}: {rejection}")]
    Rejected {
        /// The identity.
        name: String,
        /// Why.
        rejection: IdentityRejection,
    },
    /// The attempt is to end.
    #[error("the task is to end")]
    Cancelled,
}

fn because(problem: &str) -> String {
    match problem {
        "" => String::new(),
        problem => format!(": {problem}"),
    }
}

/// The identities of a node's tasks.
#[derive(Debug)]
pub struct IdentityService {
    queries: Arc<Queries>,
    clock: Arc<dyn Clock>,
    inputs: mpsc::Sender<Input>,
    kept: Option<KeptFiles>,
    state: Mutex<State>,
    /// The machine has steps, or another deadline.
    wake: Notify,
    /// Something was answered: attempts that wait look again.
    news: watch::Sender<u64>,
    /// One at a time writes kept files.
    keeping: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    machine: Identities,
    /// The runs that are told of renewals.
    followed: BTreeMap<(AllocId, String), Arc<PrepareTask>>,
    rejections: BTreeMap<IdentityKey, IdentityRejection>,
    /// Tokens that took the place of others, and whose task is still to be told. They are kept, so
    /// that no kill of the daemon loses a signal.
    undelivered: BTreeSet<IdentityKey>,
    /// Allocations whose tokens are on the disk too.
    cut_off: BTreeSet<AllocId>,
    /// Tasks whose files could not be written: they are tried again.
    retrying: BTreeSet<(AllocId, String)>,
    /// The problem with the newest question.
    problem: String,
}

impl IdentityService {
    /// A service. With `kept`, tokens that an earlier daemon of this boot held are held again.
    pub fn new(
        queries: Arc<Queries>,
        clock: Arc<dyn Clock>,
        inputs: mpsc::Sender<Input>,
        kept: Option<KeptFiles>,
        seed: u64,
    ) -> Self {
        let (mut machine, mut undelivered) = (Identities::new(seed), BTreeSet::new());
        for found in kept.iter().flat_map(KeptFiles::read_all) {
            if found.undelivered {
                undelivered.insert(found.key.clone());
            }
            machine.restore(found.key, found.token);
        }
        let state = State {
            machine,
            followed: BTreeMap::new(),
            rejections: BTreeMap::new(),
            undelivered,
            cut_off: BTreeSet::new(),
            retrying: BTreeSet::new(),
            problem: String::new(),
        };
        Self {
            queries,
            clock,
            inputs,
            kept,
            state: Mutex::new(state),
            wake: Notify::new(),
            news: watch::Sender::new(0),
            keeping: tokio::sync::Mutex::new(()),
        }
    }

    /// The questions that it asks with.
    pub(crate) fn queries(&self) -> &Arc<Queries> {
        &self.queries
    }

    /// Tokens of allocations that the node does not have any more go. Blocks on the disk.
    pub fn retain(&self, is_known: impl Fn(AllocId) -> bool) {
        let gone = self.kept.iter().flat_map(KeptFiles::allocs);
        for alloc in gone.filter(|alloc| !is_known(*alloc)) {
            self.state.lock().machine.forget(alloc);
            self.kept.iter().for_each(|kept| kept.remove(alloc));
        }
    }

    /// The identities that an attempt shows, by name: held already, or waited for.
    ///
    /// # Errors
    /// Where one is not signed within [`WAIT_MAX`] or rejected, or `cancel` says so.
    pub async fn obtain(
        &self,
        prepare: &PrepareTask,
        cancel: &CancellationToken,
    ) -> Result<BTreeMap<String, HeldToken>, ObtainError> {
        let mut news = self.news.subscribe();
        self.want(prepare);
        let deadline = tokio::time::sleep(WAIT_MAX);
        tokio::pin!(deadline);
        loop {
            news.borrow_and_update();
            let missing = match self.found(prepare)? {
                Ok(tokens) => return Ok(tokens),
                Err(missing) => missing,
            };
            tokio::select! {
                () = cancel.cancelled() => return Err(ObtainError::Cancelled),
                () = &mut deadline => return Err(ObtainError::TimedOut {
                    name: missing,
                    problem: self.state.lock().problem.clone(),
                }),
                // The service outlives every attempt.
                _ = news.changed() => {}
            }
        }
    }

    /// The tokens that an attempt may start with; or the first identity that has none.
    fn found(
        &self,
        prepare: &PrepareTask,
    ) -> Result<Result<BTreeMap<String, HeldToken>, String>, ObtainError> {
        let now = self.clock.moment();
        let state = self.state.lock();
        let mut tokens = BTreeMap::new();
        for identity in &prepare.identities {
            let key = key_of(&prepare.run, &identity.name);
            let name = identity.name.clone();
            if let Some(rejection) = state.rejections.get(&key) {
                let rejection = *rejection;
                return Err(ObtainError::Rejected { name, rejection });
            }
            match state.machine.token(&key) {
                Some(token) if !token.is_expired(now) => tokens.insert(name, token.clone()),
                Some(_) | None => return Ok(Err(name)),
            };
        }
        Ok(Ok(tokens))
    }

    /// A run is alive: its identities are kept fresh, and it is told of renewals.
    pub fn follow(&self, prepare: Arc<PrepareTask>) {
        let task = (prepare.run.alloc, prepare.run.task.clone());
        self.want(&prepare);
        self.state.lock().followed.insert(task, prepare);
    }

    /// A run is over: nothing of it is renewed.
    pub fn pause(&self, run: &RunKey) {
        let mut state = self.state.lock();
        let task = (run.alloc, run.task.clone());
        if state.followed.get(&task).is_none_or(|it| it.run == *run) {
            state.followed.remove(&task);
            state.machine.pause(run.alloc, &run.task);
        }
    }

    /// An allocation needs no identity any more.
    pub async fn forget(&self, alloc: AllocId) {
        {
            let mut state = self.state.lock();
            state.machine.forget(alloc);
            state.followed.retain(|(of, _), _| *of != alloc);
            state.rejections.retain(|key, _| key.alloc != alloc);
            state.undelivered.retain(|key| key.alloc != alloc);
            state.cut_off.remove(&alloc);
        }
        self.keep(alloc).await;
    }

    /// A task has these tokens, or is told of them. A newer one that came meanwhile is still to be
    /// told.
    pub fn mark_delivered(&self, run: &RunKey, tokens: &BTreeMap<String, Jwt>) {
        let mut state = self.state.lock();
        for (name, jwt) in tokens {
            let key = key_of(run, name);
            if state.machine.token(&key).is_some_and(|it| it.jwt == *jwt) {
                state.undelivered.remove(&key);
            }
        }
    }

    /// The variables of identities that a task shows in its environment, as far as they are held.
    pub fn variables(&self, prepare: &PrepareTask) -> BTreeMap<String, String> {
        let state = self.state.lock();
        let variable = |identity: &noded_core::effect::PreparedIdentity| {
            let name = identity.variable.clone()?;
            let token = state.machine.token(&key_of(&prepare.run, &identity.name))?;
            Some((name, token.jwt.reveal().to_owned()))
        };
        prepare.identities.iter().filter_map(variable).collect()
    }

    fn want(&self, prepare: &PrepareTask) {
        let now = self.clock.moment();
        let root_key = prepare.spec.root_key();
        let mut state = self.state.lock();
        if prepare.spec.may_start_cut_off() {
            state.cut_off.insert(prepare.run.alloc);
        }
        for identity in &prepare.identities {
            let key = key_of(&prepare.run, &identity.name);
            state.rejections.remove(&key);
            state.machine.want(key, root_key, now);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Writes the tokens of an allocation into its kept file, or removes that.
    async fn keep(&self, alloc: AllocId) {
        let Some(kept) = self.kept.clone() else {
            return;
        };
        let _turn = self.keeping.lock().await;
        let (tokens, keeping) = {
            let state = self.state.lock();
            let held = state.machine.held(alloc);
            let held = held.map(|(key, token)| KeptToken {
                key: key.clone(),
                token: token.clone(),
                undelivered: state.undelivered.contains(key),
            });
            let keeping = match state.cut_off.contains(&alloc) {
                true => Keeping::MemoryAndDisk,
                false => Keeping::Memory,
            };
            (held.collect(), keeping)
        };
        // It fails only where the runtime ends.
        let _ = tokio::task::spawn_blocking(move || kept.write(alloc, tokens, keeping)).await;
    }
}

fn key_of(run: &RunKey, name: &str) -> IdentityKey {
    IdentityKey::new(run.alloc, run.task.clone(), name)
}
