//! Letting go of runs and allocations. It goes on past what fails, and says what stays.

use std::sync::Arc;
use std::time::Duration;

use isolation::cgroup::Patience;
use noded_core::RunKey;
use noded_keeper::io::{retire_streams, retire_streams_of, streams_are_gone};
use noded_keeper::protocol::{AllocAndTask, Request, TaskKey};
use protocol_error_chain::chain;
use protocol_model::AllocId;

use super::{Executor, cgroup_of, keeper_key};

/// How long the cgroups of an allocation that goes are waited for, in one attempt.
const CGROUP_PATIENCE: Patience = Patience::Milliseconds(2_000);
/// How long pump may take to empty the streams of an allocation that goes.
const DRAIN_MAX: Duration = Duration::from_secs(2);
const DRAIN_PAUSE: Duration = Duration::from_millis(5);
/// Between the first two attempts to remove what an allocation left; each further pause is twice as
/// long, up to the second.
const DESTROY_RETRY_MIN: Duration = Duration::from_secs(5);
const DESTROY_RETRY_MAX: Duration = Duration::from_secs(300);
/// Cgroups that remain and are named in the log, each with its processes.
const CGROUPS_LOGGED_MAX: usize = 4;

impl Executor {
    /// Lets go of everything that a run had. Keeper is told last: until then it names the run to
    /// the next noded, which does what this one did not get to.
    pub(super) async fn release(self: &Arc<Self>, run: RunKey) {
        self.own.values().for_each(|runs| runs.forget(&run));
        let Some(key) = keeper_key(&run) else { return };
        let held = key.clone();
        self.blocking(move |own| own.let_go(&run, &held)).await;
        if let Err(error) = self
            .keeper
            .call(Request::Acknowledge { key: key.clone() }, Vec::new())
            .await
        {
            tracing::warn!(run = %key, error = %chain(&error), "the exit status was not acknowledged to keeper");
        }
    }

    /// What a run has outside keeper, and nothing of a later one. A cgroup whose processes do not
    /// die is not waited for: the run is over, and it goes with the allocation. Blocks.
    fn let_go(&self, run: &RunKey, key: &TaskKey) {
        if let Err(error) = retire_streams_of(&self.paths, key) {
            tracing::warn!(%run, error = %chain(&error), "output streams were not retired");
        }
        self.sandboxes.forget(run);
        let Ok(path) = cgroup_of(key) else { return };
        if let Err(errors) = self.hierarchy.remove_task(&path, Patience::None) {
            for error in errors {
                tracing::warn!(%run, error = %chain(&error), "cgroup not removed");
            }
        }
    }

    /// Takes away what only running tasks of an allocation need. What remains is said: it goes with
    /// the allocation at the latest.
    pub(super) async fn retire(self: &Arc<Self>, alloc: AllocId) {
        self.blocking(move |own| {
            if let Err(error) = own.networks.release(alloc) {
                tracing::warn!(%alloc, error = %chain(&error), "network of ended tasks not removed");
            }
            if let Err(error) = own.allocs.drop_secrets(alloc) {
                tracing::warn!(%alloc, error = %chain(&error), "secrets of ended tasks not removed");
            }
        })
        .await;
    }

    /// Removes everything of an allocation; goes on until nothing is left.
    pub(super) async fn destroy(self: &Arc<Self>, alloc: AllocId) {
        let name = alloc.to_string();
        let _answer = self
            .keeper
            .call(Request::Forget { alloc: name }, Vec::new())
            .await;
        self.drain_streams(alloc).await;
        let mut pause = DESTROY_RETRY_MIN;
        while !self.blocking(move |own| own.remove_remains(alloc)).await {
            tokio::time::sleep(pause).await;
            pause = longer(pause);
        }
    }

    /// Removes network, directories and cgroups of an allocation; says what stays, and whether none
    /// does. Blocks.
    fn remove_remains(&self, alloc: AllocId) -> bool {
        let again = |error: &dyn std::error::Error| {
            tracing::warn!(%alloc, error = %chain(error), "allocation not removed; retrying");
        };
        let cgroups = self
            .hierarchy
            .remove_alloc(&alloc.to_string(), CGROUP_PATIENCE);
        if let Err(errors) = &cgroups {
            let logged = errors.iter().take(CGROUPS_LOGGED_MAX);
            logged.for_each(|error| again(error));
            let more = errors.len().saturating_sub(CGROUPS_LOGGED_MAX);
            if more > 0 {
                tracing::warn!(%alloc, more, "further cgroups not removed");
            }
        }
        let network = self.networks.release(alloc);
        if let Err(error) = &network {
            again(error);
        }
        let directories = self.allocs.destroy(alloc);
        if let Err(error) = &directories {
            again(error);
        }
        cgroups.is_ok() && network.is_ok() && directories.is_ok()
    }

    /// Lets pump finish with every task of an allocation, those included whose preparation failed.
    /// A pump that is away is not waited for: it finds nothing to write to, and lets go.
    async fn drain_streams(self: &Arc<Self>, alloc: AllocId) {
        let owners: Vec<AllocAndTask> = self
            .blocking(move |own| own.allocs.tasks_of(alloc))
            .await
            .iter()
            .filter_map(|task| Self::log_owner(alloc, task))
            .collect();
        for owner in &owners {
            if let Err(error) = retire_streams(&self.paths, owner) {
                tracing::warn!(%alloc, error = %chain(&error), "output streams were not retired");
            }
        }
        let end = tokio::time::Instant::now() + DRAIN_MAX;
        let gone = |owner| streams_are_gone(&self.paths, owner).unwrap_or(true);
        while !owners.iter().all(gone) && tokio::time::Instant::now() < end {
            tokio::time::sleep(DRAIN_PAUSE).await;
        }
    }
}

/// The pause after this one.
fn longer(pause: Duration) -> Duration {
    (pause * 2).min(DESTROY_RETRY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_is_retried_less_and_less_often_and_never_given_up() {
        let pauses = std::iter::successors(Some(DESTROY_RETRY_MIN), |pause| Some(longer(*pause)));
        let seconds: Vec<u64> = pauses.map(|pause| pause.as_secs()).take(8).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 300, 300]);
    }
}
