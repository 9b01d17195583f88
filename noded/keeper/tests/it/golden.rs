//! Frozen bytes: what this version writes, a later one must still read, and the other way round
//! within one protocol version.
//!
//! `DROVER_BLESS=1` writes files that are missing; a file that is there is never changed.

use noded_keeper::io::{LogLimits, StreamSpec};
use noded_keeper::protocol::{
    CallId, Event, Exit, ExitCause, ExitStatus, Message, OomKill, OsSignal, Refusal, Remains,
    Request, Response, SpawnFailure, SpawnRequest, StdioSource, StopMethod, TaskKey, TaskPhase,
    TaskReport, UnixNanos, VersionRange, decode_from_client, decode_from_keeper, encode_for_client,
    encode_for_keeper,
};
use std::path::PathBuf;

/// What the first release speaks.
const VERSION_1: VersionRange = VersionRange {
    lowest: 1,
    highest: 1,
};

pub(crate) fn key() -> TaskKey {
    TaskKey::new("0b7d6a80-1f0e-4c55-9d3c-5d1a52a0c001", "web", 300).unwrap()
}

fn golden(name: &str, bytes: &[u8]) {
    frozen("v1", name, bytes);
}

pub(crate) fn frozen(version: &str, name: &str, bytes: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(version)
        .join(name);
    if !path.exists() && std::env::var_os("DROVER_BLESS").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    let old = std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(
        old, bytes,
        "{name}: the bytes of a published message changed"
    );
}

fn requests() -> Vec<(&'static str, Request)> {
    let signal = OsSignal(15);
    vec![
        (
            "hello",
            Request::Hello {
                protocol: VERSION_1,
                steps: VersionRange {
                    lowest: 1,
                    highest: 2,
                },
            },
        ),
        (
            "spawn",
            Request::Spawn(SpawnRequest {
                key: key(),
                cgroup: "tasks/a/web".into(),
                stdin: StdioSource::Null,
                stdout: StdioSource::Fifo {
                    name: "a.web.stdout".into(),
                },
                stderr: StdioSource::Descriptor { position: 2 },
                network: Some(3),
                target: Some(key()),
                start_timeout_ms: 30_000,
            }),
        ),
        ("signal", Request::Signal { key: key(), signal }),
        (
            "stop",
            Request::Stop {
                key: key(),
                signal,
                kill_after_ms: 5000,
            },
        ),
        ("kill", Request::Kill { key: key() }),
        ("list", Request::List),
        ("acknowledge", Request::Acknowledge { key: key() }),
        ("forget", Request::Forget { alloc: "a".into() }),
        ("shutdown", Request::Shutdown),
        ("ping", Request::Ping),
    ]
}

fn failure() -> SpawnFailure {
    SpawnFailure {
        step_index: Some(4),
        step: "mount /proc".into(),
        errno: 1,
        at: UnixNanos(5),
    }
}

pub(crate) fn exit(status: ExitStatus, oom: OomKill, cause: ExitCause, remains: Remains) -> Exit {
    Exit {
        status,
        oom,
        cause,
        remains,
        at: UnixNanos(1_700_000_000_000_000_000),
    }
}

fn reports() -> Vec<TaskReport> {
    let dumped = ExitStatus::Signal {
        signal: OsSignal(11),
        core_dumped: true,
    };
    let started_at = UnixNanos(9);
    [
        TaskPhase::Starting { pid: 1 },
        TaskPhase::Running {
            pid: 2,
            start_time_ticks: 3,
            started_at,
            stopping: true,
        },
        TaskPhase::Ending { pid: 3 },
        TaskPhase::SpawnFailed(failure()),
        TaskPhase::Exited(exit(
            dumped,
            OomKill::Yes,
            ExitCause::KillDeadline,
            Remains::Killed,
        )),
    ]
    .map(|phase| TaskReport {
        key: key(),
        cgroup: "tasks/a/web".into(),
        phase,
    })
    .into()
}

fn refusals() -> Vec<Refusal> {
    let (path, name, detail) = ("p".to_owned(), "n".to_owned(), "d".to_owned());
    vec![
        Refusal::NotGreeted,
        Refusal::NoCommonVersion { keeper: VERSION_1 },
        Refusal::Malformed {
            detail: detail.clone(),
        },
        Refusal::StaleEpoch { highest: 7 },
        Refusal::UnknownTask,
        Refusal::AlreadyEnded,
        Refusal::StillStarting,
        Refusal::EarlierRunAlive { run_epoch: 6 },
        Refusal::Spawn {
            detail: detail.clone(),
        },
        Refusal::TooManyRuns { runs: 9 },
        Refusal::MissingDescriptor { position: 1 },
        Refusal::BadPlan { detail },
        Refusal::Cgroup {
            path: path.clone(),
            errno: 2,
        },
        Refusal::CgroupNotEmpty { path },
        Refusal::Fifo { name, errno: 2 },
        Refusal::Signal {
            signal: 99,
            errno: 22,
        },
        Refusal::Record { errno: 28 },
        Refusal::RunsRemain { runs: 1 },
    ]
}

fn responses() -> Vec<(String, Response)> {
    let steps = VersionRange {
        lowest: 1,
        highest: 1,
    };
    let mut responses = vec![
        (
            "welcome".to_owned(),
            Response::Welcome {
                protocol: 1,
                steps,
                keeper_pid: 77,
            },
        ),
        ("accepted".to_owned(), Response::Accepted),
        (
            "listing".to_owned(),
            Response::Listing {
                tasks: reports(),
                more: true,
            },
        ),
        ("pong".to_owned(), Response::Pong { runs: 2 }),
    ];
    let methods = [
        StopMethod::Signalled,
        StopMethod::KilledAtOnce,
        StopMethod::AlreadyEnding,
    ];
    for (number, method) in methods.into_iter().enumerate() {
        responses.push((format!("stopping-{number}"), Response::Stopping { method }));
    }
    for (number, refusal) in refusals().into_iter().enumerate() {
        responses.push((format!("refused-{number:02}"), Response::Refused(refusal)));
    }
    responses
}

fn messages() -> Vec<(String, Message)> {
    let mut messages: Vec<(String, Message)> = responses()
        .into_iter()
        .map(|(name, response)| {
            (
                name,
                Message::Response {
                    call: CallId(300),
                    response,
                },
            )
        })
        .collect();
    let exits = [
        exit(
            ExitStatus::Code(3),
            OomKill::No,
            ExitCause::OwnAccord,
            Remains::None,
        ),
        exit(
            ExitStatus::Unknown,
            OomKill::NotMeasured,
            ExitCause::SignalWouldBeDiscarded,
            Remains::Surviving,
        ),
        exit(
            ExitStatus::Code(0),
            OomKill::No,
            ExitCause::KillRequest,
            Remains::Killed,
        ),
    ];
    let mut events = vec![
        (
            "started".to_owned(),
            Event::Started {
                key: key(),
                pid: 77,
                at: UnixNanos(5),
            },
        ),
        (
            "spawn-failed".to_owned(),
            Event::SpawnFailed {
                key: key(),
                failure: failure(),
            },
        ),
    ];
    for (number, exit) in exits.into_iter().enumerate() {
        events.push((
            format!("exited-{number}"),
            Event::Exited { key: key(), exit },
        ));
    }
    messages.extend(
        events
            .into_iter()
            .map(|(name, event)| (name, Message::Event(event))),
    );
    messages
}

#[test]
fn every_request_keeps_its_bytes() {
    for (name, request) in requests() {
        let bytes = encode_for_keeper(CallId(300), &request).unwrap();
        golden(&format!("request-{name}.bin"), &bytes);
        assert_eq!(decode_from_client(&bytes).unwrap(), (CallId(300), request));
    }
}

#[test]
fn every_message_keeps_its_bytes() {
    for (name, message) in messages() {
        let bytes = encode_for_client(&message).unwrap();
        golden(&format!("message-{name}.bin"), &bytes);
        assert_eq!(decode_from_keeper(&bytes).unwrap(), message);
    }
}

#[test]
fn a_stream_specification_keeps_its_bytes() {
    let spec = StreamSpec {
        log_base: "/var/lib/drover/alloc/a".into(),
        log_directory: "alloc/logs".into(),
        file_prefix: "web.stdout".into(),
        limits: LogLimits {
            max_files: 10,
            max_file_size_bytes: 10 << 20,
        },
        run_epoch: 300,
    };
    let bytes = spec.encode().unwrap();
    frozen("v2", "spec.bin", &bytes);
    assert_eq!(StreamSpec::decode(&bytes).unwrap(), spec);
    // The same without the run.
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let bytes = std::fs::read(folder.join("spec.bin")).unwrap();
    let of_no_run = StreamSpec {
        run_epoch: 0,
        ..spec
    };
    assert_eq!(StreamSpec::decode(&bytes).unwrap(), of_no_run);
}

#[test]
fn damaged_bytes_are_errors_and_never_panics() {
    for (_, request) in requests() {
        let bytes = encode_for_keeper(CallId(1), &request).unwrap();
        for length in 0..bytes.len() {
            decode_from_client(&bytes[..length]).unwrap_err();
        }
        let mut longer = bytes.clone();
        longer.push(0);
        decode_from_client(&longer).unwrap_err();
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x55;
            // Some damage is another valid request; what counts is that it is decided.
            let _ = decode_from_client(&damaged);
        }
    }
}

#[test]
fn a_damaged_or_unsafe_specification_is_refused() {
    let good = StreamSpec {
        log_base: "/base".into(),
        log_directory: "logs".into(),
        file_prefix: "t.stdout".into(),
        limits: LogLimits {
            max_files: 1,
            max_file_size_bytes: 1,
        },
        run_epoch: 1,
    };
    let bytes = good.encode().unwrap();
    for position in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x10;
        StreamSpec::decode(&damaged).unwrap_err();
    }
    let no_files = LogLimits {
        max_files: 0,
        ..good.limits
    };
    let no_size = LogLimits {
        max_file_size_bytes: 0,
        ..good.limits
    };
    for bad in [
        StreamSpec {
            log_base: "base".into(),
            ..good.clone()
        },
        StreamSpec {
            log_directory: "../logs".into(),
            ..good.clone()
        },
        StreamSpec {
            log_directory: "/logs".into(),
            ..good.clone()
        },
        StreamSpec {
            file_prefix: "a/b".into(),
            ..good.clone()
        },
        StreamSpec {
            limits: no_files,
            ..good.clone()
        },
        StreamSpec {
            limits: no_size,
            ..good.clone()
        },
    ] {
        bad.encode().unwrap_err();
    }
}
