//! Keeper's words as the core's.

use noded_core::event::{Exit, ExitStatus, KeptPhase, KeptRun, Recovery, RunEvent};
use noded_core::{RunEpoch, RunKey};
use noded_keeper::protocol::{
    self as keeper, ExitCause, OomKill, SpawnFailure, TaskKey, TaskPhase,
};
use protocol_model::{AllocId, UnixNanos};
use rustix::io::Errno;

/// The core's name of a run; `None` for a run that is none of ours.
pub fn run_key(key: &TaskKey) -> Option<RunKey> {
    let alloc: AllocId = key.alloc().parse().ok()?;
    Some(RunKey::new(alloc, key.task(), RunEpoch(key.run_epoch())))
}

/// What an event means for its run.
pub fn run_event(event: keeper::Event) -> (TaskKey, RunEvent) {
    match event {
        keeper::Event::Started { key, pid, at } => (key, RunEvent::Started { pid, at: nanos(at) }),
        keeper::Event::SpawnFailed { key, failure } => {
            let event = RunEvent::StartFailed {
                message: describe(&failure),
                recovery: recovery(&failure),
            };
            (key, event)
        }
        keeper::Event::Exited { key, exit } => (key, RunEvent::Exited(self::exit(&exit))),
    }
}

/// A run of keeper's list, for the core's start.
pub fn kept_run(report: &keeper::TaskReport) -> Option<KeptRun> {
    let phase = match &report.phase {
        TaskPhase::Starting { .. } => KeptPhase::Starting,
        TaskPhase::Running {
            pid,
            started_at,
            stopping,
            ..
        } => KeptPhase::Running {
            pid: *pid,
            at: nanos(*started_at),
            stopping: *stopping,
        },
        TaskPhase::Ending { .. } => KeptPhase::Ending,
        TaskPhase::SpawnFailed(failure) => KeptPhase::StartFailed {
            message: describe(failure),
        },
        TaskPhase::Exited(exit) => KeptPhase::Exited(self::exit(exit)),
    };
    Some(KeptRun {
        run: run_key(&report.key)?,
        phase,
    })
}

/// What an entry of a later list says that may have been missed; `None` = an event will tell.
pub fn missed_event(report: &keeper::TaskReport) -> Option<RunEvent> {
    match &report.phase {
        TaskPhase::Starting { .. } | TaskPhase::Ending { .. } => None,
        TaskPhase::Running {
            pid, started_at, ..
        } => Some(RunEvent::Started {
            pid: *pid,
            at: nanos(*started_at),
        }),
        TaskPhase::SpawnFailed(failure) => Some(RunEvent::StartFailed {
            message: describe(failure),
            recovery: recovery(failure),
        }),
        TaskPhase::Exited(exit) => Some(RunEvent::Exited(self::exit(exit))),
    }
}

fn exit(exit: &keeper::Exit) -> Exit {
    Exit {
        status: match exit.status {
            keeper::ExitStatus::Code(code) => ExitStatus::Code(code),
            keeper::ExitStatus::Signal { signal, .. } => ExitStatus::Signal(signal.0),
            keeper::ExitStatus::Unknown => ExitStatus::Unknown,
        },
        oom_killed: exit.oom == OomKill::Yes,
        signal_discarded: exit.cause == ExitCause::SignalWouldBeDiscarded,
        lease_expired: exit.cause == ExitCause::LeaseExpired,
        at: nanos(exit.at),
    }
}

fn describe(failure: &SpawnFailure) -> String {
    let SpawnFailure {
        step_index,
        step,
        errno,
        at: _,
    } = failure;
    // It may be in the step's own words already.
    let reason = match errno {
        0 => String::new(),
        errno => {
            let reason = std::io::Error::from_raw_os_error(*errno).to_string();
            if step.contains(&reason) {
                String::new()
            } else {
                format!(": {reason}")
            }
        }
    };
    if step.starts_with(EXECUTE) {
        return format!("{step}{reason}{}", hint(*errno));
    }
    let told = match step_index {
        // Keeper says which step it was where it knows its words.
        Some(index) if !step.starts_with("step ") => format!("step {index} ({step}){reason}"),
        Some(_) | None => format!("{step}{reason}"),
    };
    if step.contains(WORKING_DIRECTORY) && *errno == Errno::ACCESS.raw_os_error() {
        return format!("{told}; {PASS_THROUGH}");
    }
    told
}

/// How keeper speaks of the step that an ordinary user's own permissions decide.
const WORKING_DIRECTORY: &str = "(working directory: ";
/// What to look at when a task may not enter its directory.
const PASS_THROUGH: &str = "the task's user must be able to enter it, and to pass through every \
                            directory above it: look at their modes, data_dir's too";

/// How keeper begins to speak of the last step, which is the user's own program.
const EXECUTE: &str = "cannot execute";

/// What to look at when a program cannot be executed.
fn hint(errno: i32) -> &'static str {
    let is = |other: Errno| other.raw_os_error() == errno;
    if is(Errno::NOENT) {
        "; the program, or the interpreter in its first line, is not there: an exec task sees its \
         own directory and the node's chroot_paths"
    } else if is(Errno::ACCESS) || is(Errno::PERM) {
        "; the task's user may not execute it: look at its mode, and at noexec mounts"
    } else if is(Errno::NOEXEC) {
        "; it is no program: a script needs a first line like #!/bin/sh"
    } else {
        ""
    }
}

/// A program that is not there now will not be there in a second either.
fn recovery(failure: &SpawnFailure) -> Recovery {
    let hopeless = [
        Errno::NOENT,
        Errno::ACCESS,
        Errno::NOEXEC,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::TOOBIG,
        Errno::PERM,
    ];
    let is_hopeless = hopeless
        .iter()
        .any(|errno| errno.raw_os_error() == failure.errno);
    if is_hopeless {
        Recovery::Hopeless
    } else {
        Recovery::Possible
    }
}

fn nanos(at: keeper::UnixNanos) -> UnixNanos {
    UnixNanos(i64::try_from(at.0).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(errno: i32) -> SpawnFailure {
        SpawnFailure {
            step_index: None,
            step: "exec".to_owned(),
            errno,
            at: keeper::UnixNanos(1),
        }
    }

    #[test]
    fn a_missing_program_is_hopeless_and_a_short_of_memory_is_not() {
        let missing = failure(Errno::NOENT.raw_os_error());
        assert_eq!(recovery(&missing), Recovery::Hopeless);
        assert!(describe(&missing).starts_with("exec: "));
        assert_eq!(
            recovery(&failure(Errno::NOMEM.raw_os_error())),
            Recovery::Possible
        );
        assert_eq!(recovery(&failure(0)), Recovery::Possible);
    }

    #[test]
    fn a_program_that_cannot_be_executed_is_told_once_and_with_what_to_look_at() {
        for (errno, hint) in [
            (Errno::NOENT, "interpreter"),
            (Errno::ACCESS, "mode"),
            (Errno::NOEXEC, "#!/bin/sh"),
        ] {
            let reason = std::io::Error::from_raw_os_error(errno.raw_os_error());
            let told = describe(&SpawnFailure {
                step_index: Some(14),
                step: format!("cannot execute /a/b: {reason}"),
                ..failure(errno.raw_os_error())
            });
            assert!(told.starts_with("cannot execute /a/b: "), "{told}");
            assert_eq!(told.matches(&reason.to_string()).count(), 1, "{told}");
            assert!(told.contains(hint), "{told}");
        }
    }

    #[test]
    fn a_step_is_told_once_and_a_closed_directory_with_what_to_look_at() {
        let denied = Errno::ACCESS.raw_os_error();
        let reason = std::io::Error::from_raw_os_error(denied);
        let told = describe(&SpawnFailure {
            step_index: Some(11),
            step: format!("step 11 (working directory: /a/b): {reason}"),
            ..failure(denied)
        });
        assert!(
            told.starts_with("step 11 (working directory: /a/b): Permission denied"),
            "{told}"
        );
        assert!(told.contains("pass through"), "{told}");
        let told = describe(&SpawnFailure {
            step_index: Some(4),
            ..failure(denied)
        });
        assert_eq!(told, format!("step 4 (exec): {reason}"));
    }

    #[test]
    fn runs_keep_their_names_both_ways() {
        let key = TaskKey::new(AllocId::from_u128(5).to_string(), "web", 3).unwrap();
        let run = run_key(&key).unwrap();
        assert_eq!(run, RunKey::new(AllocId::from_u128(5), "web", RunEpoch(3)));
        assert!(run_key(&TaskKey::new("other", "web", 3).unwrap()).is_none());
    }
}
