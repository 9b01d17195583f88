//! `task_api { .. }`: the sockets on which tasks reach the API of their cluster.

use noded_core::task_api::SocketLimits;
use serde::Deserialize;

use super::{ConfigError, invalid};

/// As many connections as one task may be given: each has a descriptor of noded.
const CONNECTIONS_HIGHEST: u32 = 4096;
/// As many requests as the node forwards at a time.
const REQUESTS_HIGHEST: u32 = 512;
/// A rate beyond this is no limit.
const RATE_HIGHEST: u32 = 1_000_000;

/// `task_api { peers = "cgroup" connections = 64 requests = 32 rate = 200 burst = 400 }`
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskApiBlock {
    /// Whether tasks have a socket; `true` unless given.
    pub enabled: Option<bool>,
    /// The processes that may connect: `cgroup` (those of the task; the default), `user` (those of
    /// its user) or `any`.
    pub peers: Option<String>,
    /// Connections of one task at a time; 64 unless given.
    pub connections: Option<u32>,
    /// Requests of one task under way at a time; 32 unless given.
    pub requests: Option<u32>,
    /// Requests of one task a second; 200 unless given.
    pub rate: Option<u32>,
    /// Requests of one task at once after a rest; twice the rate unless given.
    pub burst: Option<u32>,
}

/// The processes that may connect to a task's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Peers {
    /// Processes in a cgroup of the task.
    #[default]
    Cgroup,
    /// Processes of the task's user.
    User,
    /// Processes that the permissions of the file let.
    Any,
}

/// The checked block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskApiSettings {
    /// Whether tasks have a socket.
    pub enabled: bool,
    /// The processes that may connect.
    pub peers: Peers,
    /// The limits of each socket.
    pub limits: SocketLimits,
}

impl TaskApiSettings {
    pub(super) fn from_block(block: &TaskApiBlock) -> Result<Self, ConfigError> {
        let usual = SocketLimits::default();
        let rate = limit("rate", block.rate, usual.rate, RATE_HIGHEST)?;
        let (field, most) = ("connections", CONNECTIONS_HIGHEST);
        let connections = limit(field, block.connections, usual.connections, most)?;
        Ok(Self {
            enabled: block.enabled.unwrap_or(true),
            peers: peers(block.peers.as_deref())?,
            limits: SocketLimits {
                connections,
                requests: limit("requests", block.requests, usual.requests, REQUESTS_HIGHEST)?,
                rate,
                burst: limit(
                    "burst",
                    block.burst,
                    rate.saturating_mul(2),
                    2 * RATE_HIGHEST,
                )?,
            },
        })
    }
}

fn peers(text: Option<&str>) -> Result<Peers, ConfigError> {
    match text {
        None | Some("cgroup") => Ok(Peers::Cgroup),
        Some("user") => Ok(Peers::User),
        Some("any") => Ok(Peers::Any),
        Some(other) => Err(invalid(
            "task_api.peers",
            format!("{other:?} is none of \"cgroup\", \"user\" and \"any\""),
        )),
    }
}

fn limit(field: &str, given: Option<u32>, usual: u32, most: u32) -> Result<u32, ConfigError> {
    let value = given.unwrap_or(usual);
    if (1..=most).contains(&value) {
        return Ok(value);
    }
    Err(invalid(
        &format!("task_api.{field}"),
        format!("{value} is not between 1 and {most}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_task_api_have_defaults_and_bounds() {
        let usual = TaskApiSettings::from_block(&TaskApiBlock::default()).expect("the defaults");
        assert_eq!((usual.enabled, usual.peers), (true, Peers::Cgroup));
        assert_eq!(usual.limits, SocketLimits::default());
        let given = TaskApiBlock {
            peers: Some("user".to_owned()),
            rate: Some(10),
            ..TaskApiBlock::default()
        };
        let settings = TaskApiSettings::from_block(&given).expect("valid");
        assert_eq!((settings.peers, settings.limits.burst), (Peers::User, 20));
        let wrong = TaskApiBlock {
            requests: Some(513),
            ..TaskApiBlock::default()
        };
        let error = TaskApiSettings::from_block(&wrong).expect_err("too many");
        let text = error.to_string() + &protocol_error_chain::chain(&error);
        assert!(text.contains("task_api.requests"), "{text}");
        assert!(text.contains("513 is not between 1 and 512"), "{text}");
    }
}
