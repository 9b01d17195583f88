//! Frozen bytes of what version 2 brought.

use crate::golden::{exit, frozen, key};
use noded_keeper::protocol::{
    BootNanos, CallId, Event, ExitCause, ExitStatus, Lease, Message, OomKill, PacketError, Refusal,
    Remains, Request, Response, TaskPhase, TaskReport, VersionRange, decode_from_client,
    decode_from_keeper, encode_for_client, encode_for_keeper,
};

fn requests() -> Vec<(&'static str, Request)> {
    let versions = VersionRange {
        lowest: 1,
        highest: 2,
    };
    let lease = Lease {
        alloc: key().alloc().to_owned(),
        until: BootNanos(3_600_000_000_000),
    };
    vec![
        (
            // Of version 1, as every greeting, but from one that speaks 2.
            "hello",
            Request::Hello {
                protocol: versions,
                steps: versions,
            },
        ),
        ("upgrade", Request::Upgrade),
        (
            "extend-leases",
            Request::ExtendLeases {
                leases: vec![lease.clone(), lease],
            },
        ),
        (
            "end-lease",
            Request::EndLease {
                alloc: key().alloc().to_owned(),
            },
        ),
    ]
}

fn expired() -> noded_keeper::protocol::Exit {
    exit(
        ExitStatus::Code(0),
        OomKill::No,
        ExitCause::LeaseExpired,
        Remains::Killed,
    )
}

fn messages() -> Vec<(&'static str, Message)> {
    let response = |response| Message::Response {
        call: CallId(300),
        response,
    };
    let refused = |refusal| response(Response::Refused(refusal));
    let (alloc, detail) = ("a".to_owned(), "d".to_owned());
    vec![
        (
            "exited",
            Message::Event(Event::Exited {
                key: key(),
                exit: expired(),
            }),
        ),
        (
            "listing",
            response(Response::Listing {
                tasks: vec![TaskReport {
                    key: key(),
                    cgroup: "tasks/a/web".into(),
                    phase: TaskPhase::Exited(expired()),
                }],
                more: false,
            }),
        ),
        ("refused-0", refused(Refusal::LeaseExpired)),
        ("refused-1", refused(Refusal::TooManyLeases { leases: 9 })),
        (
            "refused-2",
            refused(Refusal::Lease {
                alloc,
                detail: detail.clone(),
            }),
        ),
        ("refused-3", refused(Refusal::UpgradeFailed { detail })),
        ("refused-4", refused(Refusal::UpgradeUnderWay)),
    ]
}

#[test]
fn every_request_of_version_2_keeps_its_bytes() {
    for (name, request) in requests() {
        let bytes = encode_for_keeper(CallId(300), &request).unwrap();
        frozen("v2", &format!("request-{name}.bin"), &bytes);
        assert_eq!(decode_from_client(&bytes).unwrap(), (CallId(300), request));
    }
}

#[test]
fn every_message_of_version_2_keeps_its_bytes_and_has_words_in_version_1() {
    for (name, message) in messages() {
        let bytes = encode_for_client(&message).unwrap();
        frozen("v2", &format!("message-{name}.bin"), &bytes);
        assert_eq!(decode_from_keeper(&bytes).unwrap(), message);
        assert_eq!(message.clone().in_words_of(2), message);
        let older = message.clone().in_words_of(1);
        assert_eq!(older.since(), 1, "{name}");
        assert_ne!(older, message);
    }
}

#[test]
fn a_message_under_a_version_that_is_not_its_own_is_refused() {
    let mut bytes = encode_for_keeper(CallId(1), &Request::Upgrade).unwrap();
    assert_eq!(bytes[0], 2);
    bytes[0] = 1;
    let error = decode_from_client(&bytes).unwrap_err();
    assert!(matches!(
        error,
        PacketError::Misnamed {
            version: 1,
            since: 2
        }
    ));
    bytes[0] = 4;
    let error = decode_from_client(&bytes).unwrap_err();
    assert!(matches!(error, PacketError::Version { version: 4 }));
}
