//! Nodes that were without servers for long are back within the time that a new leader gives them.

use std::time::Duration;

use protocol_model::reconnect::{ANSWER_LIMIT, time_to_return};

use super::{at, effects};
use crate::effect::Effect;
use crate::key::SessionEpoch;
use crate::outbox::Outbox;
use crate::session::Session;

/// Until then every server that says anything refuses everybody: long enough for the waits to have
/// grown.
const ALONE_MS: u64 = 120_000;

/// Milliseconds from when the servers serve again until the node asks one of them, where those
/// `silent` never answer.
fn returned_after(servers: usize, silent: &[usize], seed: u8) -> u64 {
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
            if silent.contains(&server.offset) {
                continue;
            }
            if now >= ALONE_MS {
                return now - ALONE_MS;
            }
            session.on_disconnected(&mut out, at(now));
        }
        let due = session.poll_timeout().expect("it tries for ever");
        let wait = due.since(at(now).moment).as_millis();
        now += u64::try_from(wait).expect("small") + 1;
    }
}

#[test]
fn a_node_is_back_within_the_time_that_a_new_leader_gives() {
    for servers in 1..=5_usize {
        let pairs = (0..servers).flat_map(|one| (0..one).map(move |other| vec![one, other]));
        let silent: Vec<Vec<usize>> = match (servers - 1) / 2 {
            0 => vec![Vec::new()],
            1 => (0..servers).map(|one| vec![one]).collect(),
            _ => pairs.collect(),
        };
        let slowest = silent
            .iter()
            .flat_map(|silent| (0..=255).map(move |seed| (silent, seed)))
            .map(|(silent, seed)| returned_after(servers, silent, seed))
            .max()
            .map(Duration::from_millis)
            .expect("some");
        let given = time_to_return(servers);
        let enough = given.checked_sub(Duration::from_secs(5)).expect("more");
        let found = format!("{servers} servers: {slowest:?} of {given:?}");
        assert!(slowest <= given, "{found}");
        // And not much more than is needed.
        assert!(slowest >= enough, "{found}");
    }
}
