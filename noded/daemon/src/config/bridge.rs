//! `network { ... }`: the addresses of networks of mode bridge.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use netns::{Forwarding, Layout};
use serde::Deserialize;

use super::{ConfigError, invalid};

/// As Nomad's.
const SUBNET: (Ipv4Addr, u8) = (Ipv4Addr::new(172, 26, 64, 0), 20);

/// `network { ipv4_subnet = "172.26.64.0/20" forwarding = "set" }`
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkBlock {
    /// The subnet that allocations get their addresses from; `172.26.64.0/20` unless given.
    pub ipv4_subnet: Option<String>,
    /// Whether noded switches IP forwarding on (`set`, which it does unless told otherwise) or only
    /// looks whether it is (`check`).
    pub forwarding: Option<String>,
}

/// The addresses of networks of mode bridge, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkSettings {
    /// The subnet that allocations get their addresses from.
    pub ipv4_subnet: Ipv4Net,
    /// Whether noded switches forwarding on.
    pub forwarding: Forwarding,
}

impl NetworkSettings {
    /// `older` is Nomad's key `bridge_network_subnet`.
    pub(super) fn from_file(
        block: &NetworkBlock,
        older: Option<&str>,
    ) -> Result<Self, ConfigError> {
        let (field, text) = match (&block.ipv4_subnet, older) {
            (Some(_), Some(_)) => {
                let problem = "it is given as network.ipv4_subnet too; keep one of them";
                return Err(invalid("bridge_network_subnet", problem));
            }
            (Some(text), None) => ("network.ipv4_subnet", text.as_str()),
            (None, Some(text)) => ("bridge_network_subnet", text),
            (None, None) => ("network.ipv4_subnet", ""),
        };
        let ipv4_subnet = match text {
            "" => Ipv4Net::new_assert(SUBNET.0, SUBNET.1),
            text => {
                let example = |_| {
                    invalid(
                        field,
                        format!("{text:?} is no subnet such as 172.26.64.0/20"),
                    )
                };
                text.parse().map_err(example)?
            }
        };
        // The node's own tag is known later, and plays no part in what may be wrong.
        Layout::new(ipv4_subnet, 0).map_err(|error| invalid(field, error))?;
        let forwarding = match block.forwarding.as_deref() {
            None | Some("set") => Forwarding::Set,
            Some("check") => Forwarding::Check,
            Some(other) => {
                let problem = format!("{other:?} is neither set nor check");
                return Err(invalid("network.forwarding", problem));
            }
        };
        Ok(Self {
            ipv4_subnet,
            forwarding,
        })
    }
}
