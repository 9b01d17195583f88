//! Whether this host forwards IPv4 packets.

use std::fs;
use std::io;

/// `net.ipv4.ip_forward` of the namespace of the thread that opens it.
const PATH: &str = "/proc/sys/net/ipv4/ip_forward";

/// How a node treats a host that does not forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarding {
    /// The node switches it on: see [`enable_forwarding`].
    Set,
    /// The administrator switches it on; until then, there is no bridge mode.
    Check,
}

/// Why the setting could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ForwardingError {
    /// It could not be read.
    #[error("cannot read {PATH}")]
    Read(#[source] io::Error),
    /// It could not be changed.
    #[error("cannot switch net.ipv4.ip_forward on; run `sysctl -w net.ipv4.ip_forward=1` as root")]
    Write(#[source] io::Error),
}

/// Switches forwarding of IPv4 on, for all devices of the namespace of the calling thread. Returns
/// whether it was off. It is never written when it is on: writing resets settings of each device.
///
/// # Errors
/// The setting cannot be read or written, which needs CAP_NET_ADMIN.
pub fn enable_forwarding() -> Result<bool, ForwardingError> {
    if is_on()? {
        return Ok(false);
    }
    fs::write(PATH, "1").map_err(ForwardingError::Write)?;
    Ok(true)
}

pub(super) fn is_on() -> Result<bool, ForwardingError> {
    let value = fs::read_to_string(PATH).map_err(ForwardingError::Read)?;
    Ok(value.trim() != "0")
}
