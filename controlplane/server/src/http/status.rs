//! `/v1/status`: who leads, and who belongs.

use super::ask::{Ask, Verb};
use super::error::{Answered, HttpError};

pub(super) fn route(ask: &Ask, rest: &[&str]) -> Answered {
    match (ask.verb, rest) {
        (Verb::Get, ["leader"]) => leader(ask),
        (Verb::Get, ["peers"]) => peers(ask),
        (_, ["leader" | "peers"]) => Err(HttpError::method()),
        _ => Err(HttpError::no_route()),
    }
}

/// The leader's QUIC address as `host:port`; empty where nobody leads.
fn leader(ask: &Ask) -> Answered {
    let leader = ask.api.leader().and_then(|leader| leader.info);
    let address = leader.map(|info| info.address).unwrap_or_default();
    ask.answer(&address, ask.api.cluster.snapshot().index())
}

fn peers(ask: &Ask) -> Answered {
    let membership = ask.api.cluster.status().membership;
    let addresses: Vec<String> = membership
        .voters
        .values()
        .map(|info| info.address.clone())
        .collect();
    ask.answer(&addresses, ask.api.cluster.snapshot().index())
}
