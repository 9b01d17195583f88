//! What answers and lists mean after a connection was lost.

use std::collections::BTreeMap;

use noded_keeper::protocol::{Event, Refusal, Request, Response, TaskKey, TaskPhase, TaskReport};
use tokio::sync::mpsc;

use super::Sent;

/// Tells those who wait for a process inside a task what they missed while the connection was away.
/// One that keeper does not know, and that is not asked for again, is over: nobody will tell of it.
pub(super) fn catch_up(
    sessions: &mut BTreeMap<TaskKey, mpsc::Sender<Event>>,
    asked: &[&TaskKey],
    listing: &[TaskReport],
) {
    sessions.retain(|key, events| {
        let listed = listing.iter().find(|report| report.key == *key);
        let event = match listed.map(|report| &report.phase) {
            None => return asked.contains(&key),
            Some(TaskPhase::Exited(exit)) => Event::Exited {
                key: key.clone(),
                exit: *exit,
            },
            Some(TaskPhase::SpawnFailed(failure)) => Event::SpawnFailed {
                key: key.clone(),
                failure: failure.clone(),
            },
            Some(
                TaskPhase::Starting { .. } | TaskPhase::Running { .. } | TaskPhase::Ending { .. },
            ) => return true,
        };
        // Full only when its owner is stuck.
        let _ = events.try_send(event);
        true
    });
}

/// What an answer means to the caller. A spawn that keeper saw before, on a connection that broke,
/// was accepted then.
pub(super) fn outcome(
    request: &Request,
    sent: Sent,
    response: Response,
) -> Result<Response, Refusal> {
    match (request, response) {
        (Request::Spawn(spawn), Response::Refused(refusal)) => {
            let own = spawn.key.run_epoch();
            let seen = match &refusal {
                Refusal::StaleEpoch { highest } => *highest == own,
                Refusal::EarlierRunAlive { run_epoch } => *run_epoch == own,
                _ => false,
            };
            if sent == Sent::Again && seen {
                Ok(Response::Accepted)
            } else {
                Err(refusal)
            }
        }
        (_, Response::Refused(refusal)) => Err(refusal),
        (_, response) => Ok(response),
    }
}

#[cfg(test)]
mod tests {
    use noded_keeper::protocol::{SpawnFailure, SpawnRequest, StdioSource, UnixNanos};
    use tokio::sync::mpsc::error::TryRecvError;

    use super::*;

    fn spawn(epoch: u64) -> Request {
        Request::Spawn(SpawnRequest {
            key: TaskKey::new("a", "t", epoch).unwrap(),
            cgroup: "a/t".to_owned(),
            stdin: StdioSource::Null,
            stdout: StdioSource::Null,
            stderr: StdioSource::Null,
            network: None,
            target: None,
            start_timeout_ms: 1,
        })
    }

    #[test]
    fn whoever_waits_for_a_process_hears_what_a_lost_connection_did_not_tell() {
        let key = |name: &str| TaskKey::new("a", name, 1).unwrap();
        let mut sessions = BTreeMap::new();
        let mut listen = |name: &str| {
            let (events, received) = mpsc::channel(1);
            sessions.insert(key(name), events);
            received
        };
        let [mut failed, mut runs, mut gone, mut asked] =
            ["failed", "runs", "gone", "asked"].map(&mut listen);
        let failure = SpawnFailure {
            step_index: None,
            step: "clone".to_owned(),
            errno: 11,
            at: UnixNanos(1),
        };
        let phases = [
            ("failed", TaskPhase::SpawnFailed(failure)),
            ("runs", TaskPhase::Starting { pid: 7 }),
        ];
        let listing = phases.map(|(name, phase)| TaskReport {
            key: key(name),
            cgroup: String::new(),
            phase,
        });
        catch_up(&mut sessions, &[&key("asked")], &listing);
        assert!(matches!(failed.try_recv(), Ok(Event::SpawnFailed { .. })));
        assert_eq!(gone.try_recv(), Err(TryRecvError::Disconnected));
        for waits in [&mut runs, &mut asked] {
            assert_eq!(waits.try_recv(), Err(TryRecvError::Empty));
        }
    }

    #[test]
    fn a_spawn_that_was_accepted_before_the_connection_broke_is_accepted() {
        let stale = || Response::Refused(Refusal::StaleEpoch { highest: 3 });
        assert_eq!(
            outcome(&spawn(3), Sent::Again, stale()),
            Ok(Response::Accepted)
        );
        let refusal = Refusal::StaleEpoch { highest: 3 };
        for (epoch, sent) in [(3, Sent::Once), (2, Sent::Again)] {
            let answer = outcome(&spawn(epoch), sent, stale());
            assert_eq!(answer, Err(refusal.clone()), "{epoch}");
        }
    }
}
