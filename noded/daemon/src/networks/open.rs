//! Whether a host can have networks of mode bridge, found when noded starts.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use ipnet::Ipv4Net;
use netns::Layout;
use protocol_error_chain::chain;
use protocol_model::NodeId;

use super::Bridge;
use crate::config::NetworkSettings;

/// Whether the node has mode bridge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Availability {
    /// It has.
    Present,
    /// It has not; the text says why, and what to do.
    Missing(String),
}

/// A subnet belongs to one node of a host as long as this lives. An abstract socket (unix(7)) is
/// seen by exactly those who would share the subnet: whoever is in the same network namespace.
#[derive(Debug)]
pub(super) struct SubnetLock {
    _socket: UnixListener,
}

impl SubnetLock {
    fn take(subnet: Ipv4Net) -> Result<Self, String> {
        let name = format!("drover-subnet-{subnet}");
        let bound = SocketAddr::from_abstract_name(name)
            .and_then(|address| UnixListener::bind_addr(&address));
        bound
            .map(|socket| Self { _socket: socket })
            .map_err(|error| {
                if error.kind() == std::io::ErrorKind::AddrInUse {
                    format!(
                        "another node of this host has the subnet {subnet}: give this one an \
                     ipv4_subnet of its own in its network block"
                    )
                } else {
                    format!("the subnet {subnet} cannot be reserved: {error}")
                }
            })
    }
}

/// The layout of a node's bridge networks.
///
/// # Errors
/// The subnet is none that can be used; a checked configuration has no such one.
pub(crate) fn layout(
    settings: NetworkSettings,
    node: NodeId,
) -> Result<Layout, netns::LayoutError> {
    let tag = u16::from_be_bytes([node.as_bytes()[0], node.as_bytes()[1]]);
    Layout::new(settings.ipv4_subnet, tag)
}

/// The bridge networks of a node, with whether the host can have them. Changes nothing. Blocks.
///
/// # Errors
/// As [`layout`].
pub(crate) fn open(settings: NetworkSettings, node: NodeId) -> Result<Bridge, netns::LayoutError> {
    let layout = layout(settings, node)?;
    let mut lock = None;
    let availability = match SubnetLock::take(settings.ipv4_subnet) {
        Err(reason) => Availability::Missing(reason),
        Ok(taken) => {
            lock = Some(taken);
            look(&layout, settings)
        }
    };
    if let Availability::Missing(reason) = &availability {
        tracing::info!(%reason, "no network mode bridge");
    }
    Ok(Bridge::new(layout, settings.forwarding, availability, lock))
}

fn look(layout: &Layout, settings: NetworkSettings) -> Availability {
    let obstacles = match netns::obstacles(layout, settings.forwarding) {
        Ok(obstacles) => obstacles,
        Err(error) => return Availability::Missing(chain(&error)),
    };
    let (fatal, others): (Vec<_>, Vec<_>) = obstacles.into_iter().partition(|it| it.is_fatal());
    for obstacle in others {
        tracing::warn!("networks of mode bridge: {obstacle}");
    }
    let reasons: Vec<String> = fatal.iter().map(ToString::to_string).collect();
    match reasons.is_empty() {
        true => Availability::Present,
        false => Availability::Missing(reasons.join("; ")),
    }
}
