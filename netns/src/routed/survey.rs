//! Looking at the host for obstacles: links, routes, addresses and tables. Nothing is changed.

use super::nft::{self, Answer, NftError};
use super::obstacles::{Device, Facts, judge};
use super::{Forwarding, ForwardingError, Layout, Obstacle, forwarding, listing};
use crate::addresses::list_addresses;
use crate::request::NetlinkError;
use crate::routes::{Family, list_routes};

/// Why the host could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ObstaclesError {
    /// Links, routes or addresses could not be listed.
    #[error("cannot list the links, routes and addresses of this host")]
    Netlink(#[from] NetlinkError),
    /// The setting of forwarding could not be read.
    #[error("cannot see whether this host forwards packets")]
    Forwarding(#[from] ForwardingError),
    /// nft could not be run, although it is installed.
    #[error("cannot list the tables of this host")]
    Nft(#[from] NftError),
    /// The description of a table could not be understood.
    #[error("cannot understand the answer of nft to {question}: {reason}")]
    Malformed {
        /// The arguments of nft.
        question: String,
        /// The fault.
        reason: String,
    },
}

/// Everything that keeps the host in the namespace of the calling thread from bridge networks, or
/// that may keep parts of them from working ([`Obstacle::is_fatal`]); fatal obstacles come first.
/// Runs nft two times, and once more for each foreign table that it looks into.
///
/// # Errors
/// The host could not be looked at. A missing nft is an obstacle, not an error.
pub fn obstacles(layout: &Layout, forwarding: Forwarding) -> Result<Vec<Obstacle>, ObstaclesError> {
    // Routes before links: a link that is gone by then takes its routes along.
    let routes = list_routes(Family::V4)?;
    let addresses = list_addresses()?;
    let devices = super::create::list_names()?
        .into_iter()
        .map(|(index, name)| Device { index, name });
    let mut facts = Facts {
        routes,
        addresses,
        devices: devices.collect(),
        is_forwarding: forwarding::is_on()?,
        ..Facts::default()
    };
    let without_nft = add_tables(layout, &mut facts)?;
    let mut found = judge(layout, forwarding, &facts);
    found.splice(0..0, without_nft);
    Ok(found)
}

/// Adds other tables to the facts. `Some` is the reason why nft cannot list them.
fn add_tables(layout: &Layout, facts: &mut Facts) -> Result<Option<Obstacle>, ObstaclesError> {
    let text = match nft::describe(&["list", "chains"]) {
        Ok(Answer::Done(text)) => text,
        Ok(Answer::Refused(reason)) => return Ok(Some(Obstacle::NftRefused { reason })),
        Err(NftError::Missing) => return Ok(Some(Obstacle::NftMissing)),
        Err(error) => return Err(error.into()),
    };
    let malformed = |question: &[&str], reason| ObstaclesError::Malformed {
        question: question.join(" "),
        reason,
    };
    let chains = listing::chains(&text).map_err(|reason| malformed(&["list", "chains"], reason))?;
    for table in chains.other_tables(layout) {
        let question = ["list", "set", "inet", &table, "subnet"];
        // A table that is gone by now, or whose release has no such set, holds no subnet.
        if let Answer::Done(text) = nft::describe(&question)?
            && let Some(subnet) =
                listing::subnet(&text).map_err(|reason| malformed(&question, reason))?
        {
            facts.other_tables.push((table, subnet));
        }
    }
    for chain in chains.dropping(layout) {
        let question = ["list", "table", &chain.family, &chain.table];
        if let Answer::Done(text) = nft::describe(&question)?
            && !listing::has_rule_for(&layout.link_prefix(), &text)
                .map_err(|reason| malformed(&question, reason))?
        {
            facts.dropping.push(chain);
        }
    }
    Ok(None)
}
