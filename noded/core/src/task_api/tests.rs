//! Tables of heads and verdicts.

use std::time::Duration;

use proptest::prelude::*;

use super::guard::{Charge, Judged, Limit};
use super::head::{self, BadHead, Framing, HEAD_BYTES_MAX};
use super::{Guard, Shown, SocketLimits, Verdict};
use crate::time::Moment;

const KNOWN: Shown = Shown::Token([1; 32]);
const UNKNOWN: Shown = Shown::Token([2; 32]);
const VERIFIED: Shown = Shown::Verified([3; 32]);

fn at(milliseconds: u64) -> Moment {
    Moment(Duration::from_millis(milliseconds))
}

fn too_many(limit: Limit, milliseconds: u64) -> Verdict {
    Verdict::TooMany {
        limit,
        retry_after: Duration::from_millis(milliseconds),
    }
}

/// Lets a request pass, and tells what a server made of its credential.
fn passes(guard: &mut Guard, shown: Shown, judged: Judged, now: Moment) {
    let verdict = guard.begin(&shown, now);
    let Verdict::Forward(charge) = verdict else {
        panic!("{shown:?} gets {verdict:?}");
    };
    guard.judged(&shown, charge, judged, now);
    guard.end();
}

/// Heads of requests, and how each is taken.
const HEADS: &[(&str, Result<Framing, BadHead>)] = &[
    ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", Ok(Framing::Sized(0))),
    (
        "GET /v1/jobs?prefix=a HTTP/1.0\r\n\r\n",
        Ok(Framing::Sized(0)),
    ),
    (
        "PUT /a HTTP/1.1\r\ncontent-LENGTH:  12 \r\n\r\n",
        Ok(Framing::Sized(12)),
    ),
    (
        "PUT /a HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n",
        Ok(Framing::Chunked),
    ),
    (
        "GET /a HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
        Ok(Framing::Upgrade),
    ),
    (
        "GET /a HTTP/1.1\r\nx: \u{e9}\t1\r\n\r\n",
        Ok(Framing::Sized(0)),
    ),
    // Two lengths.
    (
        "PUT /a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        Err(BadHead::Twice),
    ),
    (
        "PUT /a HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
        Err(BadHead::Length),
    ),
    (
        "PUT /a HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        Err(BadHead::Length),
    ),
    (
        "PUT /a HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n",
        Err(BadHead::Length),
    ),
    (
        "PUT /a HTTP/1.1\r\nContent-Length:\r\n\r\n",
        Err(BadHead::Length),
    ),
    (
        "PUT /a HTTP/1.1\r\nContent-Length: 18446744073709551617\r\n\r\n",
        Err(BadHead::Length),
    ),
    // Chunked beside a length, in either order, and other codings.
    (
        "PUT /a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        Err(BadHead::Twice),
    ),
    (
        "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        Err(BadHead::Twice),
    ),
    (
        "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        Err(BadHead::Twice),
    ),
    (
        "PUT /a HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        Err(BadHead::Coding),
    ),
    (
        "PUT /a HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
        Err(BadHead::Coding),
    ),
    (
        "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked;\r\n\r\n",
        Err(BadHead::Coding),
    ),
    (
        "PUT /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        Err(BadHead::Coding),
    ),
    (
        "PUT /a HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n",
        Err(BadHead::Name),
    ),
    (
        "GET /a HTTP/1.1\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\n",
        Err(BadHead::UpgradeWithBody),
    ),
    // Folded lines, line ends, control characters.
    (
        "GET /a HTTP/1.1\r\nx: 1\r\n 2\r\n\r\n",
        Err(BadHead::Folded),
    ),
    ("GET /a HTTP/1.1\r\n x: 1\r\n\r\n", Err(BadHead::Folded)),
    ("GET /a HTTP/1.1\r\nx: 1\n\r\n\r\n", Err(BadHead::LineEnd)),
    ("GET /a HTTP/1.1\nx: 1\r\n\r\n", Err(BadHead::LineEnd)),
    ("GET /a HTTP/1.1\r\nx: 1\r2\r\n\r\n", Err(BadHead::LineEnd)),
    ("GET /a HTTP/1.1\r\nx: \0\r\n\r\n", Err(BadHead::Value)),
    ("GET /a HTTP/1.1\r\nno colon\r\n\r\n", Err(BadHead::Name)),
    ("GET /a HTTP/1.1\r\n: 1\r\n\r\n", Err(BadHead::Name)),
    // Targets.
    (
        "GET http://other/v1/jobs HTTP/1.1\r\n\r\n",
        Err(BadHead::Target),
    ),
    ("OPTIONS * HTTP/1.1\r\n\r\n", Err(BadHead::Target)),
    ("CONNECT other:80 HTTP/1.1\r\n\r\n", Err(BadHead::Target)),
    ("GET /a\u{1} HTTP/1.1\r\n\r\n", Err(BadHead::Target)),
    ("CONNECT /a HTTP/1.1\r\n\r\n", Err(BadHead::Tunnel)),
    (
        "GET //other/v1/jobs HTTP/1.1\r\n\r\n",
        Ok(Framing::Sized(0)),
    ),
    ("GET /v1/../a HTTP/1.1\r\n\r\n", Err(BadHead::Dots)),
    ("GET /v1/%2E. HTTP/1.1\r\n\r\n", Err(BadHead::Dots)),
    ("GET /v1/./a?b HTTP/1.1\r\n\r\n", Err(BadHead::Dots)),
    (
        "GET /v1/...?a=/../b HTTP/1.1\r\n\r\n",
        Ok(Framing::Sized(0)),
    ),
    ("GET /v1/a..%2f HTTP/1.1\r\n\r\n", Ok(Framing::Sized(0))),
    ("GET  /a HTTP/1.1\r\n\r\n", Err(BadHead::RequestLine)),
    ("GET /a b HTTP/1.1\r\n\r\n", Err(BadHead::RequestLine)),
    ("GET\t/a HTTP/1.1\r\n\r\n", Err(BadHead::RequestLine)),
    ("get /a HTTP/1.1\r\n\r\n", Err(BadHead::RequestLine)),
    ("\r\nGET /a HTTP/1.1\r\n\r\n", Err(BadHead::RequestLine)),
    ("GET /a\r\n\r\n", Err(BadHead::RequestLine)),
    ("GET /a HTTP/2.0\r\n\r\n", Err(BadHead::Version)),
    (
        "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        Err(BadHead::Twice),
    ),
];

#[test]
fn heads_are_taken_or_refused_by_this_table() {
    for &(text, expected) in HEADS {
        assert_eq!(head::check(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn a_head_without_an_end_is_refused_at_its_limit() {
    let mut bytes = b"GET /".to_vec();
    bytes.resize(HEAD_BYTES_MAX - 1, b'a');
    assert_eq!(head::check_beginning(&bytes, 0), Ok(()));
    bytes.push(b'a');
    assert_eq!(head::check_beginning(&bytes, 0), Err(BadHead::TooLong));
    assert_eq!(
        head::check_beginning(b"GET / HTTP/1.1\n", 0),
        Err(BadHead::LineEnd)
    );
    assert_eq!(head::check_beginning(b"GET / HTTP/1.1\r", 0), Ok(()));
}

#[test]
fn requests_without_a_valid_credential_get_401_and_403() {
    let mut guard = Guard::new(SocketLimits::default());
    assert_eq!(guard.begin(&Shown::Nothing, at(0)), Verdict::Unauthorized);
    assert_eq!(guard.begin(&Shown::Invalid, at(0)), Verdict::Forbidden);
    let paid = Verdict::Forward(Charge::Failure);
    assert_eq!(guard.begin(&UNKNOWN, at(0)), paid);
}

#[test]
fn failures_are_limited_and_known_tokens_pass_all_the_same() {
    let mut guard = Guard::new(SocketLimits::default());
    passes(&mut guard, KNOWN, Judged::Valid, at(0));
    for _ in 0..20 {
        passes(&mut guard, UNKNOWN, Judged::Rejected, at(0));
    }
    let limited = too_many(Limit::Failures, 200);
    assert_eq!(guard.begin(&UNKNOWN, at(0)), limited);
    assert_eq!(guard.begin(&Shown::Invalid, at(0)), limited);
    assert_eq!(guard.begin(&Shown::Nothing, at(0)), Verdict::Unauthorized);
    passes(&mut guard, KNOWN, Judged::Valid, at(0));
    passes(&mut guard, VERIFIED, Judged::Valid, at(0));
    // One comes back in 200 ms.
    passes(&mut guard, UNKNOWN, Judged::Rejected, at(200));
    assert_eq!(guard.begin(&UNKNOWN, at(200)), limited);
    // A token counts as known for a minute after a server took it.
    passes(&mut guard, KNOWN, Judged::Valid, at(60_000));
}

#[test]
fn a_credential_that_no_server_rejected_costs_no_failure() {
    let mut guard = Guard::new(SocketLimits::default());
    for number in 0..100 {
        let shown = Shown::Token([number; 32]);
        passes(&mut guard, shown, Judged::Unknown, at(0));
        passes(&mut guard, shown, Judged::Valid, at(0));
    }
}

#[test]
fn unknown_credentials_at_a_time_fail_within_their_budget() {
    let limits = SocketLimits {
        requests: 100,
        ..SocketLimits::default()
    };
    let mut guard = Guard::new(limits);
    let paid = Verdict::Forward(Charge::Failure);
    let forwarded = (0..100).filter(|_| guard.begin(&UNKNOWN, at(0)) == paid);
    assert_eq!(forwarded.count(), 20);
}

#[test]
fn a_known_token_that_is_rejected_later_is_unknown_again() {
    let mut guard = Guard::new(SocketLimits::default());
    passes(&mut guard, KNOWN, Judged::Valid, at(0));
    for _ in 0..20 {
        passes(&mut guard, KNOWN, Judged::Rejected, at(0));
    }
    assert_eq!(guard.begin(&KNOWN, at(0)), too_many(Limit::Failures, 200));
}

/// A socket's history, the credential shown then, and the answer to it.
#[test]
fn verdicts_follow_the_table_of_histories_and_credentials() {
    type History = &'static [(Shown, Judged, u8)];
    let spent = too_many(Limit::Failures, 200);
    let (free, paid) = (
        Verdict::Forward(Charge::Nothing),
        Verdict::Forward(Charge::Failure),
    );
    let flood: History = &[(UNKNOWN, Judged::Rejected, 20)];
    let known: History = &[(KNOWN, Judged::Valid, 1), (UNKNOWN, Judged::Rejected, 20)];
    let dead: History = &[(VERIFIED, Judged::Rejected, 1)];
    let dead_often: History = &[(VERIFIED, Judged::Rejected, 20)];
    let lost: History = &[(UNKNOWN, Judged::Unknown, 100)];
    let again: History = &[
        (VERIFIED, Judged::Rejected, 1),
        (VERIFIED, Judged::Valid, 1),
    ];
    for (history, shown, expected) in [
        (&[] as History, Shown::Nothing, Verdict::Unauthorized),
        (&[], Shown::Invalid, Verdict::Forbidden),
        (&[], UNKNOWN, paid),
        (&[], VERIFIED, free),
        (flood, Shown::Nothing, Verdict::Unauthorized),
        (flood, Shown::Invalid, spent),
        (flood, UNKNOWN, spent),
        (flood, KNOWN, spent),
        (flood, VERIFIED, free),
        (known, KNOWN, free),
        (known, UNKNOWN, spent),
        // A token that the node verified, of an allocation elsewhere that has ended.
        (dead, VERIFIED, paid),
        (dead_often, VERIFIED, spent),
        (dead_often, Shown::Verified([4; 32]), free),
        (again, VERIFIED, free),
        (lost, UNKNOWN, paid),
    ] {
        let mut guard = Guard::new(SocketLimits::default());
        for &(shown, judged, times) in history {
            (0..times).for_each(|_| passes(&mut guard, shown, judged, at(0)));
        }
        let verdict = guard.begin(&shown, at(0));
        assert_eq!(verdict, expected, "{history:?}, then {shown:?}");
    }
}

#[test]
fn tokens_are_not_verified_while_the_failures_are_spent() {
    let mut guard = Guard::new(SocketLimits::default());
    passes(&mut guard, KNOWN, Judged::Valid, at(0));
    assert!(guard.may_verify(&[2; 32], at(0)));
    for _ in 0..20 {
        passes(&mut guard, UNKNOWN, Judged::Rejected, at(0));
    }
    assert!(!guard.may_verify(&[2; 32], at(0)));
    assert!(guard.may_verify(&[1; 32], at(0)));
    assert!(guard.may_verify(&[2; 32], at(200)));
}

#[test]
fn many_dead_tokens_of_the_cluster_cost_no_more_than_the_budget() {
    let mut guard = Guard::new(SocketLimits {
        rate: 1_000,
        burst: 1_000,
        ..SocketLimits::default()
    });
    let mut forwarded = 0;
    for number in 0..400_u16 {
        let mut token = [0; 32];
        token[..2].copy_from_slice(&number.to_le_bytes());
        let shown = Shown::Verified(token);
        if let Verdict::Forward(charge) = guard.begin(&shown, at(0)) {
            guard.judged(&shown, charge, Judged::Rejected, at(0));
            guard.end();
            forwarded += 1;
        }
    }
    // Tokens that are remembered as rejected; all others are doubtful from then on.
    assert_eq!(forwarded, 64);
    // A task's own token that a server took is not.
    assert_eq!(guard.begin(&UNKNOWN, at(0)), too_many(Limit::Failures, 200));
}

#[test]
fn requests_side_by_side_with_one_good_token_leave_the_budget_whole() {
    let mut guard = Guard::new(SocketLimits::default());
    let paid = Verdict::Forward(Charge::Failure);
    for _ in 0..20 {
        assert_eq!(guard.begin(&UNKNOWN, at(0)), paid);
    }
    for _ in 0..20 {
        guard.judged(&UNKNOWN, Charge::Failure, Judged::Valid, at(0));
        guard.end();
    }
    for number in 10..30 {
        let verdict = guard.begin(&Shown::Token([number; 32]), at(0));
        assert_eq!(verdict, paid);
    }
}

#[test]
fn requests_are_limited_in_number_and_in_rate() {
    let limits = SocketLimits {
        requests: 2,
        rate: 10,
        burst: 4,
        ..SocketLimits::default()
    };
    let mut guard = Guard::new(limits);
    let (known, free) = (VERIFIED, Verdict::Forward(Charge::Nothing));
    assert_eq!(guard.begin(&known, at(0)), free);
    assert_eq!(guard.begin(&known, at(0)), free);
    assert_eq!(guard.begin(&known, at(0)), too_many(Limit::UnderWay, 1000));
    guard.end();
    assert_eq!(guard.begin(&known, at(0)), free);
    // Refused requests count in the rate, too.
    assert_eq!(guard.begin(&known, at(0)), too_many(Limit::Rate, 100));
    guard.end();
    assert_eq!(guard.begin(&known, at(99)), too_many(Limit::Rate, 1));
    assert_eq!(guard.begin(&known, at(100)), free);
}

#[test]
fn connections_are_limited_in_number() {
    let limits = SocketLimits {
        connections: 2,
        ..SocketLimits::default()
    };
    let mut guard = Guard::new(limits);
    assert!(guard.open() && guard.open());
    assert!(!guard.open());
    guard.close();
    assert!(guard.open());
}

/// A head that comes in two pieces, cut anywhere, is judged as one that comes whole.
#[test]
fn a_head_in_two_pieces_is_taken_or_refused_as_a_whole_one() {
    for &(text, expected) in HEADS {
        let bytes = text.as_bytes();
        for looked in 0..bytes.len() {
            let begun = head::check_beginning(&bytes[..looked], 0);
            if begun.is_err() || head::end(&bytes[..looked]).is_some() {
                assert!(expected.is_err() || looked == bytes.len(), "{text:?}");
                continue;
            }
            assert_eq!(
                head::end_behind(bytes, looked),
                head::end(bytes),
                "{text:?}"
            );
            let whole = head::check_beginning(bytes, looked);
            assert_eq!(whole, head::check_beginning(bytes, 0), "{text:?} {looked}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_check_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = head::check(&bytes);
        let _ = head::check_beginning(&bytes, 0);
        if let Some(end) = head::end(&bytes) {
            prop_assert!(end <= bytes.len());
        }
    }

    /// A head that is taken has one end, and nothing in it that looks like another request line.
    #[test]
    fn a_head_that_is_taken_has_one_end(
        lines in proptest::collection::vec("[ -~\r\n\t]{0,24}", 0..6)
    ) {
        let text = format!("GET / HTTP/1.1\r\n{}\r\n\r\n", lines.join("\r\n"));
        if head::check(text.as_bytes()).is_ok() {
            prop_assert_eq!(head::end(text.as_bytes()), Some(text.len()));
        }
    }
}
