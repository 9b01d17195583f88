//! The connection that stands by.

use super::*;
use crate::effect::{ServerChoice, Wish};
use crate::event::Ending;
use crate::session::trials::PATIENCE;

const FIRST: Attempt = Attempt(1);
const SECOND: Attempt = Attempt(2);

/// A live session at server 0 of three whose second connection stands since `at(1_500)`, by when
/// the first was heard last.
pub(super) fn standing_by() -> (Session, Outbox) {
    let (mut session, mut out) = session();
    make_live(&mut session, &mut out, 5);
    session.on_timeout(&mut out, at(1_002));
    session.on_standby_connected(at(1_003));
    session.heard(at(1_500));
    effects(&mut out);
    (session, out)
}

pub(super) fn helloes(effects: &[Effect]) -> Vec<Attempt> {
    let hello = |effect: &Effect| match effect {
        Effect::Send {
            attempt,
            message: SessionMessage::Hello(_),
        } => Some(*attempt),
        _ => None,
    };
    effects.iter().filter_map(hello).collect()
}

fn moved(effects: &[Effect]) -> bool {
    let reason = DisconnectReason::Moved;
    effects.contains(&Effect::Disconnect {
        attempt: FIRST,
        reason,
    })
}

/// The first server speaks until the other connection stands once more; answers when.
fn stand_by_again(session: &mut Session, out: &mut Outbox, from: u64) -> u64 {
    let mut steps = (from..from + 30_000).step_by(100);
    let stands = steps.find(|millis| {
        session.heard(at(*millis));
        session.on_timeout(out, at(*millis));
        effects(out)
            .iter()
            .any(|effect| matches!(effect, Effect::Connect { .. }))
    });
    let stands = stands.expect("another one is made");
    session.on_standby_connected(at(stands));
    stands
}

/// Heartbeats are sent from 1.5 s on, and nothing answers them.
fn ask_in_vain(session: &mut Session, out: &mut Outbox, until: u64) {
    for millis in (1_500..until).step_by(25) {
        session.on_timeout(out, at(millis));
        assert_eq!(helloes(&effects(out)), [], "{millis}");
    }
}

/// A second connection to take the session over, whose server was heard so many milliseconds ago.
fn wish(waited: u64) -> Wish {
    Wish {
        urgent: true,
        waited: Duration::from_millis(waited),
        patience: PATIENCE,
    }
}

#[test]
fn a_live_session_soon_has_a_connection_to_another_server() {
    let (mut session, mut out) = session();
    greet(&mut session, &mut out, 0);
    let first = session.server;
    session.on_welcome(&welcome(5, false), None, &mut out, at(1));
    session.on_timeout(&mut out, at(1_500));
    assert!(
        session.standby_due().is_none(),
        "it owes its complete report"
    );
    session.on_sync_ack(SessionEpoch(5), &mut out, at(1_500));
    effects(&mut out);
    session.on_timeout(&mut out, at(2_500));
    let connect = effects(&mut out)
        .into_iter()
        .find_map(|effect| match effect {
            Effect::Connect { attempt, server } => Some((attempt, server)),
            _ => None,
        });
    let server = ServerChoice {
        offset: (first + 1) % 3,
        standby: true,
        apart_from: Some(FIRST),
        wish: wish(1_000),
    };
    assert_eq!(connect, Some((SECOND, server)));
}

#[test]
fn a_session_moves_before_its_server_has_been_silent_for_too_long() {
    let (mut session, mut out) = standing_by();
    ask_in_vain(&mut session, &mut out, 2_300);
    session.on_timeout(&mut out, at(2_300));
    let sent = effects(&mut out);
    assert_eq!(helloes(&sent), [SECOND]);
    assert!(!hello_of(&sent).daemon.is_restarted());
    assert_eq!(session.attempt(), FIRST, "until there is an answer");
    assert!(session.adopt_standby(&mut out));
    assert!(moved(&effects(&mut out)) && session.take_closed());
    let begun = session.on_welcome(&welcome(5, true), None, &mut out, at(2_310));
    assert_eq!(begun.expect("resumed").mode, SessionMode::Resumed);
    let watch = Effect::OpenWatch {
        attempt: SECOND,
        known: None,
    };
    assert!(effects(&mut out).contains(&watch));
    assert_eq!(session.live_epoch(), Some(SessionEpoch(5)));
    assert!(session.standby_due().is_some(), "the next one is planned");
}

#[test]
fn a_session_whose_server_is_silent_tries_the_next_one_at_once_where_another_refused() {
    let (mut session, mut out) = standing_by();
    ask_in_vain(&mut session, &mut out, 2_300);
    session.on_timeout(&mut out, at(2_300));
    effects(&mut out);
    session.leave_standby(DisconnectReason::Refused, &mut out, at(2_350));
    let due = session.standby_due().expect("another one is made");
    assert!(due <= at(2_350).moment.after(RETRY_DEFAULT), "{due:?}");
}

/// Between two heartbeats a second apart nothing is heard: that is no silence, and where nobody
/// leads and every server refuses, every node would knock four times a second.
#[test]
fn rare_heartbeats_are_no_reason_for_haste() {
    let (mut session, mut out) = standing_by();
    let second = Duration::from_secs(1);
    session.pulse.on_welcome(second, second, at(2_300).moment);
    session.on_standby_lost(Ending::Otherwise, at(2_400));
    let due = session.standby_due().expect("another one is made");
    assert!(due >= at(2_400).moment.after(RETRY_DEFAULT), "{due:?}");
    effects(&mut out);
}

/// Where every server is slow, nodes that go from one to the other make all of them slower.
#[test]
fn a_session_that_had_to_ask_of_late_waits_longer_before_it_asks_again() {
    let (mut session, mut out) = standing_by();
    let mut heard = 1_500;
    let mut waited = Vec::new();
    for _ in 0..4 {
        let asked = (heard..heard + 2_600).step_by(25).find(|millis| {
            session.on_timeout(&mut out, at(*millis));
            !helloes(&effects(&mut out)).is_empty()
        });
        let asked = asked.expect("it asks before it is taken for silent");
        waited.push((asked - heard) / 100);
        session.leave_standby(DisconnectReason::Refused, &mut out, at(asked));
        // The first server was only slow, and the other one stands by again.
        heard = stand_by_again(&mut session, &mut out, asked + 1);
    }
    assert_eq!(waited, [8, 12, 18, 18]);
    heard += 60_000;
    session.heard(at(heard));
    assert_eq!(session.standby_due(), Some(at(heard + 800).moment));
}

#[test]
fn a_refusal_of_the_other_server_costs_nothing() {
    let (mut session, mut out) = standing_by();
    session.on_timeout(&mut out, at(2_300));
    effects(&mut out);
    session.leave_standby(DisconnectReason::Refused, &mut out, at(2_310));
    assert!(!session.take_closed());
    session.heard(at(2_320));
    session.on_timeout(&mut out, at(2_400));
    let sent = effects(&mut out);
    assert_eq!(session.live_epoch(), Some(SessionEpoch(5)), "{sent:?}");
    assert_eq!(session.attempt(), FIRST);
    // Another one is made, and not at once.
    let due = session.standby_due().expect("planned");
    assert!(due > at(2_500).moment, "{due:?}");
}

#[test]
fn an_answer_that_nobody_waits_for_moves_nothing() {
    let (mut session, mut out) = standing_by();
    assert!(!session.adopt_standby(&mut out));
    assert_eq!(session.attempt(), FIRST);
    assert!(!session.take_closed());
}

#[test]
fn a_session_whose_connection_breaks_goes_on_over_the_other_without_a_wait() {
    let (mut session, mut out) = standing_by();
    session.on_disconnected(Ending::Otherwise, &mut out, at(1_600));
    assert!(session.take_closed());
    let sent = effects(&mut out);
    assert_eq!(helloes(&sent), [SECOND]);
    assert_eq!(session.attempt(), SECOND);
    let begun = session.on_welcome(&welcome(5, true), None, &mut out, at(1_610));
    assert_eq!(begun.expect("resumed").mode, SessionMode::Resumed);
}

#[test]
fn a_hello_that_is_on_its_way_is_not_said_again_when_the_first_connection_breaks() {
    let (mut session, mut out) = standing_by();
    session.on_timeout(&mut out, at(2_300));
    effects(&mut out);
    session.on_disconnected(Ending::Otherwise, &mut out, at(2_310));
    assert_eq!(helloes(&effects(&mut out)), []);
    let begun = session.on_welcome(&welcome(5, true), None, &mut out, at(2_320));
    assert!(begun.is_some());
}

#[test]
fn with_both_connections_gone_the_session_waits_as_ever() {
    let (mut session, mut out) = standing_by();
    session.on_disconnected(Ending::Otherwise, &mut out, at(1_600));
    session.on_disconnected(Ending::Otherwise, &mut out, at(1_601));
    let SessionPhase::Disconnected { retry_at } = session.phase() else {
        panic!("{:?}", session.phase());
    };
    assert!(retry_at.is_some_and(|at_| at_ >= at(1_601).moment));
    assert!(!session.is_standby(SECOND));
}

#[test]
fn a_server_that_is_cut_off_from_the_leader_is_left_for_one_that_is_not() {
    let (mut session, mut out) = standing_by();
    let ack = HeartbeatAck {
        tick: 1,
        typical_interval: Duration::ZERO,
        confirmed_sent_nanos: 0,
        cut_off: true,
        pace: Duration::ZERO,
    };
    session.on_heartbeat_ack(&ack, &mut out, at(1_600));
    assert_eq!(helloes(&effects(&mut out)), [SECOND]);
    session.on_heartbeat_ack(&ack, &mut out, at(1_725));
    assert_eq!(helloes(&effects(&mut out)), [], "once");
}

/// A session at a server that answers, whose second connections fail until the next one would be
/// made three seconds from then, at least; answers when.
fn alone_for_long(session: &mut Session, out: &mut Outbox) -> u64 {
    let steps = (2_000..120_000).step_by(25);
    for millis in steps {
        session.heard(at(millis));
        session.on_timeout(out, at(millis));
        let made = |effect: &Effect| matches!(effect, Effect::Connect { .. });
        if effects(out).iter().any(made) {
            session.on_standby_lost(Ending::Otherwise, at(millis));
        }
        let far = at(millis + 3_000).moment;
        if let Standby::None {
            retry_at: Some(due),
            ..
        } = session.standby
            && due > far
        {
            return millis;
        }
    }
    panic!("it never waits for long");
}

/// When the next connection is made.
fn connects_at(session: &mut Session, out: &mut Outbox, from: u64) -> u64 {
    let made = |effect: &Effect| matches!(effect, Effect::Connect { .. });
    let mut steps = (from..from + 20_000).step_by(25);
    let at = steps.find(|millis| {
        session.on_timeout(out, at(*millis));
        effects(out).iter().any(made)
    });
    at.expect("it is made")
}

#[test]
fn a_server_that_falls_silent_ends_the_wait_for_another_connection() {
    let (mut session, mut out) = standing_by();
    session.on_standby_lost(Ending::Otherwise, at(1_600));
    let heard = alone_for_long(&mut session, &mut out);
    let made = connects_at(&mut session, &mut out, heard);
    let worry = heard + 800;
    assert!((worry..=worry + 275).contains(&made), "{made} of {worry}");
    // Once: what fails from then on is tried again as ever.
    session.on_standby_lost(Ending::Otherwise, at(made));
    let again = session.standby_due().expect("another one is made");
    assert!(again > at(made).moment, "{again:?}");
}

#[test]
fn a_server_that_is_cut_off_ends_the_wait_for_another_connection() {
    let (mut session, mut out) = standing_by();
    session.on_standby_lost(Ending::Otherwise, at(1_600));
    let heard = alone_for_long(&mut session, &mut out);
    let mut ack = HeartbeatAck {
        tick: session.pulse.newest(),
        cut_off: true,
        pace: Duration::ZERO,
        typical_interval: Duration::ZERO,
        confirmed_sent_nanos: 0,
    };
    session.on_heartbeat_ack(&ack, &mut out, at(heard + 1));
    let due = session.standby_due().expect("another one is made");
    assert!(due <= at(heard + 251).moment, "{due:?}");
    // It reaches the leader again: there is no hurry any more.
    ack.cut_off = false;
    session.on_heartbeat_ack(&ack, &mut out, at(heard + 1));
    let due = session.standby_due().expect("another one is made");
    assert!(due > at(heard + 500).moment, "{due:?}");
}

#[test]
fn an_answer_that_was_overtaken_says_nothing_of_the_server_any_more() {
    let (mut session, mut out) = standing_by();
    let epoch = SessionEpoch(5);
    for _ in 0..2 {
        session.send_heartbeat(epoch, &mut out, at(1_600));
    }
    effects(&mut out);
    let ack = |tick, cut_off| HeartbeatAck {
        tick,
        typical_interval: Duration::ZERO,
        confirmed_sent_nanos: at(1_500).moment.as_nanos(),
        cut_off,
        pace: Duration::ZERO,
    };
    let newest = session.pulse.newest();
    assert!(session.on_heartbeat_ack(&ack(newest, false), &mut out, at(1_610)));
    assert!(!session.on_heartbeat_ack(&ack(newest - 1, true), &mut out, at(1_620)));
    assert_eq!(helloes(&effects(&mut out)), []);
    // Leases count from it all the same, and the server was heard.
    assert_eq!(session.confirmed(), Some(at(1_500).moment));
    assert_eq!(session.last_heard, at(1_620).moment);
}

#[test]
fn a_server_that_does_not_answer_is_no_help_and_is_given_up() {
    let (mut session, mut out) = standing_by();
    session.on_timeout(&mut out, at(2_300));
    effects(&mut out);
    session.heard(at(3_700));
    session.on_timeout(&mut out, at(3_800));
    let reason = DisconnectReason::Silent {
        waiting_for: "a second server",
    };
    let given_up = Effect::Disconnect {
        attempt: SECOND,
        reason,
    };
    assert!(effects(&mut out).contains(&given_up));
    assert_eq!(session.live_epoch(), Some(SessionEpoch(5)));
}

/// That answers are lost does not say that heartbeats are: the leader may hear the node all the
/// time, and would not any more.
#[test]
fn a_silent_server_is_told_of_life_while_another_one_is_asked() {
    let (mut session, mut out) = standing_by();
    let (mut asked, mut heartbeats) = (0, 0);
    for millis in (1_500..7_500).step_by(25) {
        session.on_timeout(&mut out, at(millis));
        for effect in effects(&mut out) {
            match effect {
                Effect::Connect { .. } => {
                    asked += 1;
                    session.on_standby_connected(at(millis));
                }
                Effect::Send {
                    attempt: FIRST,
                    message: SessionMessage::Heartbeat { .. },
                } => heartbeats += 1,
                Effect::Disconnect { attempt, .. } => assert_ne!(attempt, FIRST, "{millis}"),
                _ => {}
            }
        }
    }
    assert!(asked >= 2, "{asked} connections to other servers");
    // Three seconds at the usual interval, and then more and more rarely.
    assert!(heartbeats >= 3_000 / 125 + 10, "{heartbeats} heartbeats");
    session.on_timeout(&mut out, at(7_500));
    let closed = effects(&mut out);
    let ends = |effect: &Effect| matches!(effect, Effect::Disconnect { attempt: FIRST, .. });
    assert!(closed.iter().any(ends), "{closed:?}");
}

#[test]
fn to_the_only_server_a_second_connection_is_made_only_when_the_first_is_silent() {
    let (mut session, mut out) = session();
    session.set_servers(1, at(0));
    greet(&mut session, &mut out, 0);
    let only = Welcome {
        servers: 1,
        ..welcome(5, false)
    };
    session.on_welcome(&only, None, &mut out, at(1));
    session.on_sync_ack(SessionEpoch(5), &mut out, at(2));
    session.heard(at(5_000));
    let asked = (5_000..7_000).step_by(25).find_map(|millis| {
        session.on_timeout(&mut out, at(millis));
        let server = effects(&mut out)
            .into_iter()
            .find_map(|effect| match effect {
                Effect::Connect { server, .. } => Some(server),
                _ => None,
            })?;
        Some((millis, server))
    });
    let nobody_else = ServerChoice {
        offset: 0,
        standby: true,
        apart_from: None,
        wish: wish(1_800),
    };
    assert_eq!(asked, Some((6_800, nobody_else)));
    // It stands at once and takes the session over; the first one was there until then.
    session.on_standby_connected(at(6_900));
    session.on_timeout(&mut out, at(6_900));
    assert_eq!(helloes(&effects(&mut out)), [SECOND]);
    assert!(session.adopt_standby(&mut out));
    assert!(moved(&effects(&mut out)));
}
