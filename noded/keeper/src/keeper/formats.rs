//! What a keeper leaves for the next one, as bytes: records on the runtime tmpfs, and the state
//! that is handed over in memory. Both outlive the build that wrote them.
//!
//! Reading and writing again is all that anybody outside needs, and only to feed the readers.

use protocol_error_chain::chain;

use super::handover::State;
use super::records::Record;
use crate::io::{seal, unseal};
use crate::protocol::Lease;

/// The version byte of records of runs and of leases.
pub(super) const RECORD_VERSION: u8 = 1;

/// Reads the record of a run and writes it again.
///
/// # Errors
/// Where the bytes are none, in words.
pub fn record_again(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let record: Record = unseal(RECORD_VERSION, bytes).map_err(|error| chain(&error))?;
    seal(RECORD_VERSION, &record).map_err(|error| chain(&error))
}

/// Reads the record of a lease and writes it again.
///
/// # Errors
/// Where the bytes are none, in words.
pub fn lease_again(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let lease: Lease = unseal(RECORD_VERSION, bytes).map_err(|error| chain(&error))?;
    seal(RECORD_VERSION, &lease).map_err(|error| chain(&error))
}

/// Reads a state and writes it again; nothing in it is acted on.
///
/// # Errors
/// Where the bytes are none, in words.
pub fn state_again(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let state = State::decode(bytes).map_err(|error| chain(&error))?;
    state.encode().map_err(|error| chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::custody::{Ending, Outcome, Phase, Run, Running};
    use crate::keeper::handover::{HeldState, LeaseState, LingeringState, RunState, SessionState};
    use crate::keeper::records::RecordState;
    use crate::protocol::{
        BootNanos, CallId, Exit, ExitCause, ExitStatus, OomKill, OsSignal, Remains, SpawnFailure,
        TaskKey, UnixNanos,
    };
    use std::path::PathBuf;

    fn golden(name: &str, bytes: &[u8]) {
        frozen("v1", name, bytes);
    }

    fn frozen(version: &str, name: &str, bytes: &[u8]) {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let path = folder.join(version).join(name);
        if !path.exists() && std::env::var_os("DROVER_BLESS").is_some() {
            std::fs::write(&path, bytes).unwrap();
        }
        let old = std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            old, bytes,
            "{name}: the bytes of a published format changed"
        );
    }

    fn key(task: &str) -> TaskKey {
        TaskKey::new("0b7d6a80-1f0e-4c55-9d3c-5d1a52a0c001", task, 300).unwrap()
    }

    fn running() -> Running {
        Running {
            pid: 77,
            start_time_ticks: 5_000,
            started_at: UnixNanos(9),
            kill_at: Some(BootNanos(7)),
            cause: ExitCause::OwnAccord,
        }
    }

    fn failure() -> SpawnFailure {
        SpawnFailure {
            step_index: Some(4),
            step: "mount /proc".into(),
            errno: 1,
            at: UnixNanos(5),
        }
    }

    fn exit(status: ExitStatus, cause: ExitCause) -> Exit {
        Exit {
            status,
            oom: OomKill::NotMeasured,
            cause,
            remains: Remains::None,
            at: UnixNanos(11),
        }
    }

    fn outcomes() -> Vec<Outcome> {
        let exit = |status, cause| Outcome::Exited(exit(status, cause));
        let dumped = ExitStatus::Signal {
            signal: OsSignal(11),
            core_dumped: true,
        };
        vec![
            Outcome::SpawnFailed(failure()),
            exit(ExitStatus::Code(3), ExitCause::KillDeadline),
            exit(dumped, ExitCause::LeaseExpired),
            exit(ExitStatus::Unknown, ExitCause::SignalWouldBeDiscarded),
        ]
    }

    #[test]
    fn every_record_keeps_its_bytes() {
        let mut states = vec![
            RecordState::Starting,
            RecordState::Running(running()),
            RecordState::Acknowledged,
        ];
        states.extend(outcomes().into_iter().map(RecordState::Ended));
        states.push(RecordState::Ending(Ending {
            pid: 78,
            outcome: Outcome::Exited(exit(ExitStatus::Code(5), ExitCause::OwnAccord)),
            deadline: BootNanos(u64::MAX),
        }));
        for (number, state) in states.into_iter().enumerate() {
            let record = Record {
                key: key("web"),
                cgroup: "a/web".into(),
                fifos: vec!["a.web.stdout".into(), "a.web.stderr".into()],
                state,
            };
            let bytes = seal(RECORD_VERSION, &record).unwrap();
            golden(&format!("record-{number}.bin"), &bytes);
            assert_eq!(record_again(&bytes).unwrap(), bytes);
        }
        let lease = Lease {
            alloc: key("web").alloc().to_owned(),
            until: BootNanos(3_600_000_000_000),
        };
        let bytes = seal(RECORD_VERSION, &lease).unwrap();
        golden("lease.bin", &bytes);
        assert_eq!(lease_again(&bytes).unwrap(), bytes);
    }

    fn plan() -> isolation::Plan {
        isolation::Plan {
            version: 1,
            namespaces: Vec::new(),
            pid_namespace: isolation::PidNamespace::Keeper,
            slots: Vec::new(),
            steps: vec![isolation::Step::NewSession],
            exec: isolation::Exec {
                candidates: vec![c"/bin/true".to_owned()],
                argv: Vec::new(),
                env: Vec::new(),
            },
        }
    }

    fn state() -> State {
        let mut phases = vec![
            Phase::Starting {
                pid: 70,
                deadline: BootNanos(1),
                cause: ExitCause::KillRequest,
            },
            Phase::Failing {
                pid: 71,
                failure: failure(),
            },
            Phase::Running(running()),
        ];
        let ending = |outcome| {
            Phase::Ending(Ending {
                pid: 72,
                outcome,
                deadline: BootNanos(2),
            })
        };
        phases.extend(outcomes().into_iter().map(ending));
        phases.extend(outcomes().into_iter().map(Phase::Ended));
        let plan = plan();
        let runs = (100_i32..).step_by(10).zip(phases);
        let runs = runs.map(|(first, phase)| RunState {
            key: key(&format!("web-{first}")),
            child: matches!(phase, Phase::Running(_)).then_some(77),
            pidfd: Some(first),
            report: Some(first + 1),
            streams: vec![first + 2, first + 3],
            oom_kills_at_start: Some(2),
            plan: matches!(phase, Phase::Starting { .. }).then(|| plan.clone()),
            status_until: Some(BootNanos(4)),
            run: Run {
                cgroup: "a/web".into(),
                fifos: vec!["a.web.stdout".into()],
                phase,
            },
        });
        State {
            lock: 3,
            listener: 4,
            session: Some(SessionState {
                socket: 5,
                protocol: Some(2),
                queue: vec![vec![1, 2, 3]],
                call: Some(CallId(7)),
            }),
            runs: runs.collect(),
            floors: vec![key("old"), key("older")],
            leases: vec![LeaseState {
                alloc: "a".into(),
                until: BootNanos(9),
                recorded: BootNanos(8),
            }],
            lingering: vec![LingeringState {
                until: BootNanos(10),
                stream: 6,
            }],
            held: Vec::new(),
        }
    }

    #[test]
    fn a_state_keeps_its_bytes() {
        let bytes = state().encode().unwrap();
        golden("state.bin", &bytes);
        assert_eq!(State::decode(&bytes).unwrap(), state());
    }

    fn state_with_sockets() -> State {
        let held = [("web", 7), ("worker", 8)];
        let held = held.map(|(task, socket)| HeldState {
            owner: key(task).owner().clone(),
            socket,
        });
        State {
            held: held.into(),
            ..state()
        }
    }

    #[test]
    fn a_state_with_sockets_keeps_its_bytes() {
        let bytes = state_with_sockets().encode().unwrap();
        frozen("v3", "state.bin", &bytes);
        assert_eq!(State::decode(&bytes).unwrap(), state_with_sockets());
    }

    #[test]
    fn a_state_of_version_2_without_sockets_is_refused() {
        let bytes = state().encode().unwrap();
        let mut content = bytes[..bytes.len() - 4].to_vec();
        content[29] = b'2';
        content.push(0);
        let checksum = crc32fast::hash(&content).to_le_bytes();
        let error = state_again(&[&content[..], &checksum].concat()).unwrap_err();
        assert_eq!(error, "the state says that it has sockets, and has none");
    }

    #[test]
    fn a_damaged_state_and_one_that_names_a_descriptor_twice_are_refused() {
        let bytes = state().encode().unwrap();
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x10;
            state_again(&damaged).unwrap_err();
            state_again(&bytes[..position]).unwrap_err();
        }
        let twice = State {
            listener: 3,
            ..state()
        };
        let error = state_again(&twice.encode().unwrap()).unwrap_err();
        assert_eq!(error, "descriptor 3 is named twice");
    }
}
