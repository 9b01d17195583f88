//! Frozen bytes of what version 3 brought.

use crate::golden::{frozen, key};
use noded_keeper::protocol::{
    CallId, Message, Refusal, Request, Response, VersionRange, decode_from_client,
    decode_from_keeper, encode_for_client, encode_for_keeper,
};

fn requests() -> Vec<(&'static str, Request)> {
    let versions = VersionRange {
        lowest: 1,
        highest: 3,
    };
    let owner = key().owner().clone();
    vec![
        (
            // Of version 1, as every greeting, but from one that speaks 3.
            "hello",
            Request::Hello {
                protocol: versions,
                steps: versions,
            },
        ),
        (
            "hold",
            Request::Hold {
                owner: owner.clone(),
            },
        ),
        ("take-first", Request::Take { after: None }),
        ("take-next", Request::Take { after: Some(owner) }),
        (
            "drop",
            Request::Drop {
                alloc: key().alloc().to_owned(),
            },
        ),
    ]
}

fn messages() -> Vec<(&'static str, Message)> {
    let response = |response| Message::Response {
        call: CallId(300),
        response,
    };
    let refused = |refusal| response(Response::Refused(refusal));
    let owner = key().owner().clone();
    let detail = "d".to_owned();
    vec![
        (
            "held",
            response(Response::Held {
                owners: vec![owner.clone(), owner],
                more: true,
            }),
        ),
        (
            "refused-0",
            refused(Refusal::TooManySockets { sockets: 300 }),
        ),
        ("refused-1", refused(Refusal::Socket { detail })),
    ]
}

#[test]
fn every_request_of_version_3_keeps_its_bytes() {
    for (name, request) in requests() {
        let bytes = encode_for_keeper(CallId(300), &request).unwrap();
        frozen("v3", &format!("request-{name}.bin"), &bytes);
        assert_eq!(decode_from_client(&bytes).unwrap(), (CallId(300), request));
    }
}

#[test]
fn every_message_of_version_3_keeps_its_bytes() {
    for (name, message) in messages() {
        assert_eq!(message.since(), 3, "{name}");
        let bytes = encode_for_client(&message).unwrap();
        frozen("v3", &format!("message-{name}.bin"), &bytes);
        assert_eq!(decode_from_keeper(&bytes).unwrap(), message);
        assert_eq!(message.clone().in_words_of(3), message);
    }
}

#[test]
fn refusals_of_version_3_have_words_in_the_versions_before() {
    for (name, message) in messages() {
        if name == "held" {
            // Only `Take`, which the client would not have sent, has this answer.
            continue;
        }
        for version in [1, 2] {
            let older = message.clone().in_words_of(version);
            assert_eq!(older.since(), 1, "{name}");
        }
    }
}
