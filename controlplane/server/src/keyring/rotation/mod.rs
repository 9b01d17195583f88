//! The life of root keys while this server leads: the shell around `controlplane_leader::keys`.
//!
//! ```text
//!  root keys changed, gc_interval passed ──► steps(state) ──► one after the other ──► log
//!                                                └─ one that fails is logged: the next one follows
//! ```
//!
//! A task of its own: moving many values takes a while, and neither elections nor the first key
//! wait for it.

mod rekey;

use std::time::Duration;

use controlplane_keyring::KeyringError;
use controlplane_leader::keys::{KeyStep, RootKeyConfig, next_look, next_resign, steps};
use controlplane_state::Command;
use controlplane_state::command::{IDENTITY_LEVEL, RootKeyChange, RootKeyUpsert, Rotation};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::make::{MakeError, new_root_key};
use super::service::KekService;
use crate::cluster::{ChangeError, Cluster, LeadingError};

/// The pause after a look with a step that failed.
const FAILED_PAUSE: Duration = Duration::from_secs(10);
/// The pause while a server is too old, or the cluster has no root key yet.
const EARLY_PAUSE: Duration = Duration::from_secs(1);

/// The pause after an entry of many: the log is for others, too.
const REST: Duration = Duration::from_millis(20);

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// No root key was made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// A value or a key was not opened, or not sealed.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// The log or the state refused it.
    #[error(transparent)]
    Log(#[from] LeadingError),
    /// Some values do not open with the key that sealed them.
    #[error("{0} values do not open and stay with their key; see the lines before")]
    Shut(usize),
}

/// Looks after the root keys for as long as the server runs.
pub(crate) async fn run(service: KekService, cluster: Cluster, config: RootKeyConfig) {
    let mut root_keys = cluster.hub().root_keys();
    let mut status = cluster.watch_status();
    loop {
        root_keys.mark_unchanged();
        let standing = status.borrow_and_update().clone();
        let pause = if standing.is_leader() {
            let term = standing.term;
            Leading {
                service: &service,
                cluster: &cluster,
                config,
                term,
            }
            .look()
            .await
        } else {
            config.gc_interval
        };
        tokio::select! {
            changed = root_keys.changed() => if changed.is_err() { return },
            changed = status.changed() => if changed.is_err() { return },
            () = sleep(pause) => {}
        }
    }
}

/// One look at the keys, by the leader of a term.
#[derive(Clone, Copy)]
struct Leading<'a> {
    service: &'a KekService,
    cluster: &'a Cluster,
    config: RootKeyConfig,
    term: u64,
}

impl Leading<'_> {
    /// Does all that is due. Answers after which pause to look again.
    async fn look(self) -> Duration {
        let snapshot = self.cluster.snapshot();
        let Some(active) = snapshot.active_root_key().map(|key| key.number) else {
            return EARLY_PAUSE;
        };
        if self.cluster.too_old(IDENTITY_LEVEL).is_some() {
            return EARLY_PAUSE;
        }
        // Values are sealed with the key that the keyring has for the active one.
        self.service.follows(Some(active)).await;
        let now = self.cluster.wall_clock();
        let wrapping = self.service.wanted().map(|kek| *kek.as_bytes());
        let (mut has_failed, mut has_moved) = (false, false);
        for step in steps(&snapshot, self.config, wrapping, now) {
            if !self.cluster.leads_in(self.term) {
                return EARLY_PAUSE;
            }
            has_moved |= matches!(
                step,
                KeyStep::RekeyTokens { .. } | KeyStep::RekeyVariables { .. }
            );
            if let Err(error) = self.carry_out(step.clone()).await {
                has_failed = true;
                log(&step, &error);
            }
        }
        let pause = next_look(&self.cluster.snapshot(), self.config, now);
        match (has_failed, has_moved) {
            (true, _) => pause.min(FAILED_PAUSE),
            // A key that is empty now has another step.
            (false, true) => pause.min(EARLY_PAUSE),
            (false, false) => pause,
        }
    }

    async fn carry_out(self, step: KeyStep) -> Result<(), StepError> {
        match step {
            KeyStep::Make {
                replaces,
                publish_time,
            } => {
                let key = new_root_key(self.service, publish_time).await?;
                let (id, state) = (key.id, key.state.as_str());
                let upsert = RootKeyUpsert {
                    key,
                    replaces: Some(replaces),
                    rotation: Rotation::Plain,
                };
                self.propose(upsert.into()).await?;
                tracing::info!(root_key = %id, state, "a root key was made");
            }
            KeyStep::Change(change) => {
                self.propose(change.clone().into()).await?;
                tracing::info!(change = ?Shown(&change), "a root key changed");
            }
            KeyStep::RekeyTokens { number } => rekey::tokens(self, number).await?,
            KeyStep::RekeyVariables { number } => rekey::variables(self, number).await?,
            KeyStep::Resign { .. } => self.resign().await?,
            KeyStep::Rewrap { number } => self.rewrap(number).await?,
        }
        Ok(())
    }

    async fn propose(self, command: Command) -> Result<(), StepError> {
        self.cluster.change_as_leader(command, self.term).await?;
        Ok(())
    }

    /// Moves allocations to the active key, entry by entry.
    async fn resign(self) -> Result<(), StepError> {
        let mut moved = 0;
        loop {
            let snapshot = self.cluster.snapshot();
            let next = spawn_blocking(move || next_resign(&snapshot)).await;
            let Ok(Some(resign)) = next else {
                break;
            };
            moved += resign.allocs.len();
            self.propose(resign.into()).await?;
            sleep(REST).await;
        }
        tracing::info!(moved, "allocations moved to the active root key");
        Ok(())
    }

    async fn rewrap(self, number: u32) -> Result<(), StepError> {
        let kek = self.service.wrapping()?;
        let (kek_id, keyring) = (kek.id(), self.service.keyring());
        let (before, wrapped) = keyring.rewrapped(number, &kek)?;
        let change = RootKeyChange::Rewrap {
            number,
            before: *before.as_bytes(),
            kek_id: *kek_id.as_bytes(),
            wrapped,
        };
        self.propose(change.into()).await?;
        tracing::info!(root_key = number, %before, kek = %kek_id, "a root key was wrapped anew");
        Ok(())
    }
}

/// A change of a root key for the log: without material.
struct Shown<'a>(&'a RootKeyChange);

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            RootKeyChange::Activate { number } => write!(f, "key {number} is active"),
            RootKeyChange::EndRekey { number } => write!(f, "key {number} is inactive"),
            RootKeyChange::Rewrap { number, .. } => write!(f, "key {number} is wrapped anew"),
            RootKeyChange::Remove { number, .. } => write!(f, "key {number} is removed"),
        }
    }
}

/// A refusal is the state's newer knowledge; the rest an operator may have to look at.
fn log(step: &KeyStep, error: &StepError) {
    let number = match step {
        KeyStep::Make { replaces, .. } => *replaces,
        KeyStep::RekeyTokens { number }
        | KeyStep::RekeyVariables { number }
        | KeyStep::Resign { number }
        | KeyStep::Rewrap { number } => *number,
        KeyStep::Change(change) => change.number(),
    };
    match error {
        StepError::Log(LeadingError::Change(ChangeError::Refused(refusal))) => {
            tracing::debug!(root_key = number, %refusal, "a step of a root key was refused");
        }
        error => tracing::warn!(root_key = number, %error, "a step of a root key failed"),
    }
}
