//! `/v1/status`: who leads, and who belongs.

use protocol_api::agent::{Leader, Peers};

use super::ask::Ask;
use super::error::Answered;
use super::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![Leader => leader, Peers => peers];

/// The leader's QUIC address as `host:port`; empty where nobody leads.
async fn leader(ask: &Ask) -> Answered {
    let leader = ask.api.leader().and_then(|leader| leader.info);
    let address = leader.map(|info| info.address).unwrap_or_default();
    ask.answer(&address, ask.api.cluster.snapshot().index())
}

async fn peers(ask: &Ask) -> Answered {
    let membership = ask.api.cluster.status().membership;
    let addresses: Vec<String> = membership
        .voters
        .values()
        .map(|info| info.address.clone())
        .collect();
    ask.answer(&addresses, ask.api.cluster.snapshot().index())
}
