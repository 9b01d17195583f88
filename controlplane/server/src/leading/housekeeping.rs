//! Housekeeping: what the leader's parts want in the log, one command at a time. It belongs to one
//! term of leading and ends with it: an expiry that a leader without a quorum decided on would take
//! down nodes that the others hear, were its successor asked to write it.

use std::time::Duration;

use controlplane_leader::{Effect, Leader, Now};
use controlplane_state::{Command, LaunchResult, Outcome};
use tokio::task::JoinSet;

use crate::cluster::{ChangeError, Cluster, LeadingError};

/// The pause after a command that the log did not take, before anything else is asked of it.
const FAILED_PAUSE: Duration = Duration::from_millis(100);

/// The command in the log's hands, if there is one. Nobody waits for it once this is dropped.
#[derive(Debug, Default)]
pub(super) struct Housekeeping {
    running: JoinSet<Kept>,
}

/// What became of a command.
pub(super) type Kept = Result<(), (Command, LeadingError)>;

impl Housekeeping {
    /// Whether none is in the log's hands.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Gives a command to the log, as the leader of `term`.
    pub(super) fn start(&mut self, cluster: Cluster, term: u64, command: Command) {
        self.running.spawn(async move {
            let error = match cluster.change_as_leader(command.clone(), term).await {
                Ok(changed) => {
                    log_denied_launches(&command, &changed.outcome);
                    return Ok(());
                }
                Err(error) => error,
            };
            if !matches!(&error, LeadingError::Change(ChangeError::Refused(_))) {
                tokio::time::sleep(FAILED_PAUSE).await;
            }
            Err((command, error))
        });
    }

    /// The end of the command; never, where there is none.
    pub(super) async fn next(&mut self) -> Kept {
        match self.running.join_next().await {
            None => std::future::pending().await,
            Some(Ok(kept)) => kept,
            Some(Err(error)) => {
                tracing::error!(%error, "the task that commits the leader's commands panicked");
                Ok(())
            }
        }
    }
}

/// Logs the launches by schedule that did not happen because a namespace changed: the operator who
/// changed it would otherwise look for jobs that never came.
fn log_denied_launches(command: &Command, outcome: &Outcome) {
    let (Command::PeriodicLaunch(command), Outcome::PeriodicLaunched(results)) = (command, outcome)
    else {
        return;
    };
    for (launch, result) in command.launches.iter().zip(results) {
        if let LaunchResult::Denied(denied) = result {
            let job = launch.child.parent();
            tracing::warn!(%job, reason = %denied, "a launch of a periodic job was skipped");
        }
    }
}

/// Tells the leader's parts what became of their command.
pub(super) fn on_kept(kept: Kept, leader: &mut Leader, now: Now) {
    match kept {
        Ok(()) => {}
        // The state knows better: somebody else did it, or it does not hold any more.
        Err((command, LeadingError::Change(ChangeError::Refused(refusal)))) => {
            tracing::debug!(%refusal, "the log refused a command of the leader");
            leader.on_refused(&Effect::Command(command), &refusal.to_string());
        }
        // To try again at once would not help.
        Err((
            command,
            LeadingError::Change(error @ (ChangeError::TooLarge(_) | ChangeError::OldServer(_))),
        )) => {
            tracing::warn!(%error, "the log refused a command of the leader");
            leader.on_refused(&Effect::Command(command), &error.to_string());
        }
        Err((command, error)) => {
            tracing::warn!(%error, "a command of the leader was not committed; it is retried");
            leader.on_failed(&Effect::Command(command), now);
        }
    }
}
