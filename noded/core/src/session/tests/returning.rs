//! Nodes that were without servers for long are back within the time that a new leader gives them.

use std::time::Duration;

use protocol_model::reconnect::{ANSWER_LIMIT, time_to_return};

use super::{at, effects, greet, session, welcome};
use crate::effect::Effect;
use crate::event::{Ending, Refused, RefusedReason};
use crate::key::SessionEpoch;
use crate::outbox::Outbox;
use crate::session::Session;
use crate::session::greeting::{SOON_ATTEMPTS, SOON_MAX};

/// Until then no server takes anybody: long enough for the waits to have grown.
const ALONE_MS: u64 = 150_000;

/// The latest second try of an attempt that is over after five seconds (RFC 9002, 6.2).
const SENT_AGAIN_MS: u64 = 3_000;

/// What servers do until then.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// They refuse everybody, and ask for the longest waits that they ever ask for.
    Refuse,
    /// They say nothing.
    Mute,
}

/// Milliseconds from when the servers serve again until the node asks one of them, where those
/// `silent` never answer.
fn returned_after(servers: usize, silent: &[usize], seed: u8, before: Before) -> u64 {
    let mut now = 0;
    let mut session = Session::new(SessionEpoch(4), ANSWER_LIMIT, [seed; 16], at(now));
    let mut out = Outbox::default();
    session.set_servers(servers, at(now));
    loop {
        session.on_timeout(&mut out, at(now));
        for effect in effects(&mut out) {
            let Effect::Connect { server, .. } = effect else {
                continue;
            };
            // The slowest way to find a server silent: to say Hello with the first packet.
            session.on_connected(&mut out, at(now));
            if silent.contains(&server.offset) {
                continue;
            }
            if now >= ALONE_MS {
                return now - ALONE_MS;
            }
            if let Before::Mute = before {
                // What is sent again after one and three seconds finds a server that listens.
                if now + SENT_AGAIN_MS > ALONE_MS {
                    return SENT_AGAIN_MS;
                }
            } else {
                let refused = Refused {
                    reason: RefusedReason::NoLeader,
                    message: String::new(),
                    servers,
                    retry_interval: Duration::from_secs(2),
                };
                session.on_refused(&refused, &mut out, at(now));
                effects(&mut out);
            }
        }
        let due = session.poll_timeout().expect("it tries for ever");
        let wait = due.since(at(now).moment).as_millis();
        now += u64::try_from(wait).expect("small") + 1;
    }
}

/// The entries of a node's list that never answer: those of the servers that a majority can do
/// without, each named twice, or one of a server that is no more.
fn silent_entries(servers: usize) -> usize {
    ((servers - 1) / 2 * 2).max(1)
}

#[test]
fn a_node_is_back_within_the_time_that_a_new_leader_gives() {
    for servers in 1..=5_usize {
        let silent = silent_entries(servers);
        let all = servers + silent;
        let given = time_to_return(servers);
        for before in [Before::Refuse, Before::Mute] {
            let slowest = (0..all)
                .map(|first| {
                    (first..first + silent)
                        .map(|at| at % all)
                        .collect::<Vec<_>>()
                })
                .flat_map(|silent| (0..=255).map(move |seed| (silent.clone(), seed)))
                .map(|(silent, seed)| returned_after(all, &silent, seed, before))
                .max()
                .map(Duration::from_millis)
                .expect("some");
            let found = format!("{servers} servers, {before:?}: {slowest:?} of {given:?}");
            assert!(slowest <= given, "{found}");
            // And not much more than is needed.
            let enough = given.checked_sub(Duration::from_secs(8)).expect("more");
            assert!(slowest >= enough, "{found}");
        }
    }
}

/// Milliseconds until the next attempt.
fn wait(session: &Session, now: u64) -> u64 {
    let due = session.poll_timeout().expect("it tries for ever");
    u64::try_from(due.since(at(now).moment).as_millis()).expect("small")
}

#[test]
fn a_node_that_was_greeted_tries_again_soon_but_not_for_ever() {
    let (mut session, mut out) = session();
    let mut now = 0;
    // Every one is greeted, and ends before its report is taken.
    let mut waits = Vec::new();
    for round in 0..40 {
        if round < 20 {
            session.on_timeout(&mut out, at(now));
            effects(&mut out);
        } else {
            greet(&mut session, &mut out, now);
            session.on_welcome(&welcome(5, false), None, &mut out, at(now));
        }
        session.on_disconnected(Ending::Otherwise, &mut out, at(now));
        effects(&mut out);
        let wait = wait(&session, now);
        waits.push(Duration::from_millis(wait));
        now += wait + 1;
    }
    let soon = usize::try_from(SOON_ATTEMPTS / 2).expect("small");
    let (before, after) = waits.split_at(20);
    assert!(before.iter().any(|wait| *wait > SOON_MAX), "{before:?}");
    let (soon, later) = after.split_at(soon);
    assert!(soon.iter().all(|wait| *wait <= SOON_MAX), "{soon:?}");
    assert!(later.iter().any(|wait| *wait > SOON_MAX), "{later:?}");
}
