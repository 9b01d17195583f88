//! `ETHTOOL_GLINK` of ioctl(2): the state of a device, which the kernel brings up to date first.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};

const SIOCETHTOOL: Opcode = 0x8946;
const ETHTOOL_GLINK: u32 = 0x0a;
/// `IFNAMSIZ`: a name and its final zero.
const NAME_BYTES: usize = 16;

/// struct `ethtool_value` (linux/ethtool.h).
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// struct `ifreq` (netdevice(7)) with a pointer in its union, which has 24 bytes.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    value: *mut Value,
    rest: [u8; 24 - size_of::<*mut Value>()],
}

/// Makes the kernel process a change of the device's carrier that it has only noted, and returns
/// whether the device can send. `socket` is of the device's namespace and of any family.
pub(crate) fn settle_link(socket: BorrowedFd<'_>, name: &str) -> Result<bool, Errno> {
    let mut value = Value {
        command: ETHTOOL_GLINK,
        data: 0,
    };
    let mut request = Request {
        name: [0; NAME_BYTES],
        value: &raw mut value,
        rest: [0; 24 - size_of::<*mut Value>()],
    };
    let place = request
        .name
        .get_mut(..name.len())
        .ok_or(Errno::NAMETOOLONG)?;
    place.copy_from_slice(name.as_bytes());
    if request.name[NAME_BYTES - 1] != 0 {
        return Err(Errno::NAMETOOLONG);
    }
    // SAFETY: SIOCETHTOOL takes a struct ifreq, whose layout `Request` has. The kernel follows its
    // pointer for the command in `value` only: ETHTOOL_GLINK reads and writes one `ethtool_value`.
    // `value` and `request` live until the call returned, and nothing else refers to them.
    unsafe {
        ioctl(socket, Updater::<SIOCETHTOOL, Request>::new(&mut request))?;
    }
    Ok(value.data != 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use netlink_sys::protocols::NETLINK_ROUTE;

    use super::*;
    use crate::request::open;

    #[test]
    fn loopback_can_send_and_unknown_devices_are_an_error() {
        let socket = open(NETLINK_ROUTE).expect("a socket");
        assert_eq!(settle_link(socket.as_fd(), "lo"), Ok(true));
        for (name, expected) in [
            ("no-such-device", Errno::NODEV),
            ("sixteen-letters-", Errno::NAMETOOLONG),
            ("more-than-sixteen-letters", Errno::NAMETOOLONG),
        ] {
            assert_eq!(settle_link(socket.as_fd(), name), Err(expected), "{name}");
        }
    }
}
