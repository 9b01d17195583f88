//! Heartbeats of a session of which nothing is in doubt.

use super::standby::{helloes, standing_by};
use super::*;

/// The ticks of the heartbeats among `effects`.
fn heartbeats(effects: &[Effect]) -> Vec<u64> {
    let tick = |effect: &Effect| match effect {
        Effect::Send {
            message: SessionMessage::Heartbeat { tick, .. },
            ..
        } => Some(*tick),
        _ => None,
    };
    effects.iter().filter_map(tick).collect()
}

/// Its server answers every heartbeat at once, for twenty seconds; answers how many there were and
/// when the last one was.
fn heard_well(session: &mut Session, out: &mut Outbox) -> (usize, u64) {
    let (mut count, mut last) = (0, 0);
    for millis in 1_501..21_501 {
        session.on_timeout(out, at(millis));
        for tick in heartbeats(&effects(out)) {
            let ack = HeartbeatAck {
                tick,
                typical_interval: Duration::ZERO,
                confirmed_sent_nanos: 0,
                cut_off: false,
                pace: Duration::ZERO,
            };
            assert!(session.on_heartbeat_ack(&ack, out, at(millis)));
            (count, last) = (count + 1, millis);
        }
    }
    (count, last)
}

#[test]
fn where_every_answer_comes_heartbeats_become_rare() {
    let (mut session, mut out) = standing_by();
    let (count, _) = heard_well(&mut session, &mut out);
    // Eighty in ten seconds, and twenty in the other ten.
    assert!((98..=104).contains(&count), "{count}");
}

#[test]
fn a_server_that_falls_silent_in_calm_has_been_asked_as_often_as_any_before_another_is() {
    let (mut session, mut out) = standing_by();
    let (_, heard) = heard_well(&mut session, &mut out);
    let mut sent = 0;
    let asked = (heard + 1..heard + 2_600).find(|millis| {
        session.on_timeout(&mut out, at(*millis));
        let effects = effects(&mut out);
        sent += heartbeats(&effects).len();
        !helloes(&effects).is_empty()
    });
    // The first one that it leaves without an answer would have come 375 ms sooner.
    assert_eq!(asked, Some(heard + 375 + 800));
    assert_eq!(sent, 6);
}
