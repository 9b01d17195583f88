//! The session's phases, against every event that matters.

use protocol_model::reconnect::RETRY_MAX;
use protocol_model::{AllocId, ClientStatus, Incarnation};
use protocol_wire::report::AllocReport;

mod calm;
mod returning;
mod standby;

use super::greeting::{SOON_ATTEMPTS, SOON_MAX};
use super::*;
use crate::effect::{DisconnectReason, Effect, Hello, SessionMessage};
use crate::event::{Ending, HeartbeatAck, Refused, RefusedReason, Welcome};
use crate::journal::JournalRecord;
use crate::key::Watermark;
use crate::outbox::Outbox;
use crate::test_support::at;
use crate::update_batcher::size::report_bytes;

fn session() -> (Session, Outbox) {
    let mut session = Session::new(SessionEpoch(4), Duration::from_secs(5), [7; 16], at(0));
    session.set_servers(3, at(0));
    (session, Outbox::default())
}

fn effects(out: &mut Outbox) -> Vec<Effect> {
    std::iter::from_fn(|| out.pop())
        .map(|issued| issued.effect)
        .collect()
}

fn welcome(epoch: u64, resumed: bool) -> Welcome {
    Welcome {
        epoch: SessionEpoch(epoch),
        resumed,
        applied_urgent_seq: 0,
        applied_typical_seq: 0,
        heartbeat_interval: Duration::from_millis(125),
        calm_interval: Duration::from_millis(500),
        typical_interval: Duration::ZERO,
        urgent_delay: Duration::ZERO,
        retry_interval: Duration::from_millis(500),
        applied: Watermark {
            incarnation: Some(Incarnation::from_u128(1)),
            index: 9,
        },
        servers: 3,
        newcomer: resumed,
    }
}

fn hello_of(effects: &[Effect]) -> Hello {
    let hello = effects.iter().find_map(|effect| match effect {
        Effect::Send {
            message: SessionMessage::Hello(hello),
            ..
        } => Some(hello.clone()),
        _ => None,
    });
    hello.expect("a Hello was sent")
}

/// Connects and says Hello at `millis`.
fn greet(session: &mut Session, out: &mut Outbox, millis: u64) -> Hello {
    session.on_timeout(out, at(millis));
    assert!(matches!(effects(out)[..], [Effect::Connect { .. }]));
    session.on_connected(out, at(millis));
    hello_of(&effects(out))
}

fn make_live(session: &mut Session, out: &mut Outbox, epoch: u64) {
    greet(session, out, 0);
    assert!(
        session
            .on_welcome(&welcome(epoch, false), None, out, at(1))
            .is_some()
    );
    assert!(
        session
            .on_sync_ack(SessionEpoch(epoch), out, at(2))
            .is_some()
    );
    effects(out);
}

#[test]
fn the_first_session_is_synced_even_with_nothing_to_say() {
    let (mut session, mut out) = session();
    let hello = greet(&mut session, &mut out, 0);
    assert_eq!(hello.last_epoch, SessionEpoch(4));
    assert!(hello.daemon.is_restarted());
    let begun = session
        .on_welcome(&welcome(5, false), None, &mut out, at(1))
        .expect("accepted");
    assert_eq!(begun.mode, SessionMode::OwesSync);
    session.send_sync(Vec::new(), 3, &mut out);
    let sent = effects(&mut out);
    assert_eq!(
        sent[0],
        Effect::Append(JournalRecord::SessionEpoch {
            epoch: SessionEpoch(5)
        })
    );
    let Effect::Send {
        message: SessionMessage::SyncPart(part),
        ..
    } = &sent[1]
    else {
        panic!("an empty part is a part: {sent:?}");
    };
    assert!(part.last && part.reports.is_empty() && part.watch_index == 3);
    assert_eq!(
        session.on_sync_ack(SessionEpoch(5), &mut out, at(2)),
        Some(SessionEpoch(5))
    );
    assert_eq!(
        effects(&mut out),
        [Effect::OpenWatch {
            attempt: Attempt(1),
            known: None,
        }]
    );
    assert_eq!(session.live_epoch(), Some(SessionEpoch(5)));
}

#[test]
fn a_restarted_daemon_never_resumes() {
    let (mut session, mut out) = session();
    greet(&mut session, &mut out, 0);
    assert_eq!(
        session.on_welcome(&welcome(4, true), None, &mut out, at(1)),
        None
    );
    assert!(matches!(effects(&mut out)[..], [Effect::Disconnect { .. }]));
}

#[test]
fn a_lost_connection_is_resumed_under_the_same_epoch_with_another_nonce() {
    let (mut session, mut out) = session();
    let first = greet(&mut session, &mut out, 0);
    session.on_welcome(&welcome(5, false), None, &mut out, at(1));
    session.on_disconnected(Ending::Otherwise, &mut out, at(2));
    effects(&mut out);
    let retry = session
        .poll_timeout()
        .expect("another attempt")
        .0
        .as_millis();
    let retry = u64::try_from(retry).expect("small") + 1;
    let second = greet(&mut session, &mut out, retry);
    assert_eq!(
        first.nonce, second.nonce,
        "the series goes on until a session is live"
    );
    session.on_welcome(&welcome(5, false), None, &mut out, at(retry));
    session.on_sync_ack(SessionEpoch(5), &mut out, at(retry));
    session.on_disconnected(Ending::Otherwise, &mut out, at(retry + 1));
    effects(&mut out);
    let third = greet(&mut session, &mut out, retry + 60_000);
    assert_ne!(second.nonce, third.nonce);
    assert!(!third.daemon.is_restarted());
    let begun = session.on_welcome(&welcome(5, true), None, &mut out, at(retry + 60_001));
    assert_eq!(begun.expect("resumed").mode, SessionMode::Resumed);
    assert_eq!(session.live_epoch(), Some(SessionEpoch(5)));
}

#[test]
fn heartbeats_go_out_at_their_interval_and_silence_ends_the_connection() {
    let (mut session, mut out) = session();
    make_live(&mut session, &mut out, 5);
    let mut ticks = Vec::new();
    for millis in (3..1_003).step_by(25) {
        session.on_timeout(&mut out, at(millis));
        ticks.extend(
            effects(&mut out)
                .into_iter()
                .filter_map(|effect| match effect {
                    Effect::Send {
                        message: SessionMessage::Heartbeat { tick, .. },
                        ..
                    } => Some(tick),
                    _ => None,
                }),
        );
    }
    assert_eq!(ticks, (1..=8).collect::<Vec<u64>>());
    session.on_timeout(&mut out, at(6_001));
    assert!(!session.take_closed());
    effects(&mut out);
    session.on_timeout(&mut out, at(6_002));
    assert!(session.take_closed());
    assert!(matches!(
        effects(&mut out)[..],
        [Effect::Disconnect {
            reason: DisconnectReason::Silent { .. },
            ..
        }]
    ));
}

#[test]
fn a_server_that_asks_for_rare_heartbeats_may_be_silent_for_longer() {
    let (mut session, mut out) = session();
    greet(&mut session, &mut out, 0);
    let mut rare = welcome(5, false);
    rare.heartbeat_interval = Duration::from_secs(5);
    session.on_welcome(&rare, None, &mut out, at(1));
    session.on_sync_ack(SessionEpoch(5), &mut out, at(2));
    for millis in (3..20_003).step_by(1_000) {
        session.on_timeout(&mut out, at(millis));
        assert!(!session.take_closed(), "{millis}");
    }
    session.on_timeout(&mut out, at(20_003));
    assert!(session.take_closed());
}

#[test]
fn waits_grow_with_failures_and_every_server_gets_its_turn() {
    let (mut session, mut out) = session();
    let mut servers = std::collections::BTreeSet::new();
    let mut now = 0;
    for attempt in 1..=40_u32 {
        session.on_timeout(&mut out, at(now));
        let sent = effects(&mut out);
        let [Effect::Connect { server, .. }] = sent[..] else {
            panic!("attempt {attempt}: {sent:?}");
        };
        servers.insert(server.offset);
        session.on_disconnected(Ending::Otherwise, &mut out, at(now));
        let next = session
            .poll_timeout()
            .expect("another attempt")
            .since(at(now).moment);
        assert!(next <= RETRY_MAX);
        // A new leader that follows another one at once gives nodes some seconds and no more.
        assert!(attempt > SOON_ATTEMPTS || next <= SOON_MAX, "{attempt}");
        assert!(next <= RETRY_DEFAULT * 2_u32.pow(attempt.min(16)));
        now += u64::try_from(next.as_millis()).expect("small") + 1;
    }
    assert_eq!(servers, std::collections::BTreeSet::from([0, 1, 2]));
}

#[test]
fn without_servers_there_is_nothing_to_wait_for() {
    let session = Session::new(SessionEpoch(0), Duration::from_secs(5), [1; 16], at(0));
    assert_eq!(session.poll_timeout(), None);
}

#[test]
fn refusals_say_what_the_next_hello_leaves_out() {
    for (reason, expected) in [
        (RefusedReason::NoLeader, SessionEpoch(4)),
        (RefusedReason::Unregistered, SessionEpoch(0)),
    ] {
        let (mut session, mut out) = session();
        greet(&mut session, &mut out, 0);
        let refused = Refused {
            reason,
            message: String::new(),
            retry_interval: Duration::from_secs(1),
            servers: 0,
        };
        session.on_refused(&refused, &mut out, at(1));
        effects(&mut out);
        let hello = greet(&mut session, &mut out, 30_000);
        assert_eq!(hello.last_epoch, expected, "{reason:?}");
    }
}

#[test]
fn a_sync_is_cut_into_bounded_parts() {
    let (mut session, mut out) = session();
    greet(&mut session, &mut out, 0);
    session.on_welcome(&welcome(5, false), None, &mut out, at(1));
    effects(&mut out);
    let reports: Vec<AllocReport> = (0..200)
        .map(|number| {
            let id = AllocId::from_u128(number);
            let mut report = AllocReport::new(id, 1, ClientStatus::Running);
            report.client_description = "x".repeat(5_000);
            report
        })
        .collect();
    session.send_sync(reports.clone(), 0, &mut out);
    let mut seen = Vec::new();
    let sent = effects(&mut out);
    for (offset, effect) in sent.iter().enumerate() {
        let Effect::Send {
            message: SessionMessage::SyncPart(part),
            ..
        } = effect
        else {
            panic!("only parts are sent: {effect:?}");
        };
        assert_eq!(part.part as usize, offset);
        assert_eq!(part.last, offset + 1 == sent.len());
        let bytes: usize = part.reports.iter().map(report_bytes).sum();
        assert!(bytes <= SYNC_PART_BYTES_MAX);
        seen.extend(part.reports.clone());
    }
    assert!(sent.len() > 1);
    assert_eq!(seen, reports);
}

#[test]
fn deadlines_end_every_phase_that_waits() {
    type Wait = fn(&mut Session, &mut Outbox);
    let waits: [(Wait, u64); 2] = [
        (
            |session, out| {
                session.on_timeout(out, at(0));
            },
            7_000,
        ),
        (
            |session, out| {
                greet(session, out, 0);
            },
            5_000,
        ),
    ];
    for (wait, millis) in waits {
        let (mut session, mut out) = session();
        wait(&mut session, &mut out);
        let deadline = session.poll_timeout().expect("a deadline");
        assert_eq!(deadline, at(millis).moment);
        session.on_timeout(&mut out, at(millis));
        assert!(session.take_closed());
        assert_eq!(session.phase().name(), "disconnected");
    }
}

#[test]
fn a_busy_server_is_asked_ever_more_rarely_and_told_the_time_waited() {
    let (mut session, mut out) = session();
    let (mut now, mut waits) = (0, Vec::new());
    for refused in 0..40 {
        session.on_timeout(&mut out, at(now));
        let [Effect::Connect { server, .. }] = effects(&mut out)[..] else {
            panic!("no attempt")
        };
        assert_eq!(server.wish.waited, Duration::from_millis(now));
        let patience = if refused == 0 { 2_000 } else { 10_000 };
        assert_eq!(server.wish.patience, Duration::from_millis(patience));
        session.on_disconnected(Ending::Busy, &mut out, at(now));
        effects(&mut out);
        let next = session.poll_timeout().expect("an attempt").0.as_millis();
        let next = u64::try_from(next).expect("small") + 1;
        waits.push(next - now);
        now = next;
    }
    assert!(waits[..2].iter().all(|wait| *wait <= 1_001), "{waits:?}");
    let longest = waits.iter().max().expect("some");
    assert!((10_000..=15_001).contains(longest), "{waits:?}");
}

fn facts_sent(effects: &[Effect]) -> usize {
    effects
        .iter()
        .filter(|effect| match effect {
            Effect::Send { message, .. } => match message {
                SessionMessage::Facts { .. } => true,
                SessionMessage::SyncPart(part) => part.with_facts,
                _ => false,
            },
            _ => false,
        })
        .count()
}

/// A live session whose sync told the facts.
fn live_and_told() -> (Session, Outbox) {
    let (mut session, mut out) = session();
    greet(&mut session, &mut out, 0);
    session.on_welcome(&welcome(5, false), None, &mut out, at(1));
    session.send_sync(Vec::new(), 3, &mut out);
    assert_eq!(facts_sent(&effects(&mut out)), 1);
    session.on_sync_ack(SessionEpoch(5), &mut out, at(2));
    assert_eq!(facts_sent(&effects(&mut out)), 0);
    (session, out)
}

#[test]
fn changed_facts_are_told_once_and_again_only_when_they_change_again() {
    let (mut session, mut out) = live_and_told();
    session.on_facts_changed(&mut out);
    assert_eq!(facts_sent(&effects(&mut out)), 1);
    session.on_facts_changed(&mut out);
    session.on_facts_changed(&mut out);
    assert_eq!(
        facts_sent(&effects(&mut out)),
        0,
        "one answer is waited for"
    );
    session.on_facts_ack(SessionEpoch(5), &mut out, at(3));
    assert_eq!(
        facts_sent(&effects(&mut out)),
        1,
        "what changed meanwhile goes"
    );
    session.on_facts_ack(SessionEpoch(5), &mut out, at(4));
    assert_eq!(facts_sent(&effects(&mut out)), 0);
}

#[test]
fn facts_of_a_second_complete_report_are_told_once_more() {
    let (mut session, mut out) = session();
    greet(&mut session, &mut out, 0);
    session.on_welcome(&welcome(5, false), None, &mut out, at(1));
    session.send_sync(Vec::new(), 3, &mut out);
    session.on_disconnected(Ending::Otherwise, &mut out, at(2));
    session.on_facts_changed(&mut out);
    effects(&mut out);
    greet(&mut session, &mut out, 20_000);
    session.on_welcome(&welcome(5, false), None, &mut out, at(20_001));
    session.send_sync(Vec::new(), 3, &mut out);
    effects(&mut out);
    // The first report may be what made it ready: its facts, and not these, were taken in.
    session.on_sync_ack(SessionEpoch(5), &mut out, at(20_002));
    assert_eq!(facts_sent(&effects(&mut out)), 1);
    session.on_facts_ack(SessionEpoch(5), &mut out, at(20_003));
    assert_eq!(facts_sent(&effects(&mut out)), 0);
}

#[test]
fn facts_whose_fate_is_unknown_are_told_again_when_the_session_is_resumed() {
    let (mut session, mut out) = live_and_told();
    session.on_facts_changed(&mut out);
    session.on_disconnected(Ending::Otherwise, &mut out, at(5));
    session.on_facts_changed(&mut out);
    effects(&mut out);
    greet(&mut session, &mut out, 20_000);
    session.on_welcome(&welcome(5, true), None, &mut out, at(20_001));
    assert_eq!(facts_sent(&effects(&mut out)), 1);
    session.on_facts_ack(SessionEpoch(5), &mut out, at(20_002));
    session.on_disconnected(Ending::Otherwise, &mut out, at(20_003));
    greet(&mut session, &mut out, 40_000);
    session.on_welcome(&welcome(5, true), None, &mut out, at(40_001));
    assert_eq!(
        facts_sent(&effects(&mut out)),
        0,
        "a resume with nothing new is free"
    );
}

#[test]
fn a_confirmation_of_another_boot_confirms_nothing() {
    let (mut session, mut out) = session();
    make_live(&mut session, &mut out, 5);
    let ack = |sent| HeartbeatAck {
        tick: 1,
        typical_interval: Duration::ZERO,
        confirmed_sent_nanos: at(sent).moment.as_nanos(),
        cut_off: false,
        pace: Duration::ZERO,
    };
    session.on_heartbeat_ack(&ack(60_000), &mut out, at(500));
    assert_eq!(session.confirmed(), None, "it was not sent yet");
    session.on_heartbeat_ack(&ack(400), &mut out, at(500));
    assert_eq!(session.confirmed(), Some(at(400).moment));
}
