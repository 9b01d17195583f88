//! The UDP socket beneath an endpoint, with room for everybody who speaks at once.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

/// Packets that wait to be read. The kernel counts more than twice a handshake packet's length
/// against it: what hosts grant unasked (208 KiB) holds ninety of them, and when a thousand nodes
/// come back at once, each one lost costs its node the time after which it is sent again.
const RECEIVE_BYTES: usize = 4 * 1024 * 1024;

/// Binds a socket. One that the host does not grant so much room has what it grants
/// (`net.core.rmem_max`).
pub(super) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    // Beyond what the host lets everybody have only with CAP_NET_ADMIN (socket(7)).
    if set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES).is_err() {
        set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::socket_recv_buffer_size;

    use super::*;

    #[test]
    fn a_socket_has_room_for_many_who_speak_at_once() {
        let usual = UdpSocket::bind("127.0.0.1:0").unwrap();
        let usual = socket_recv_buffer_size(&usual).unwrap();
        let socket = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let granted = socket_recv_buffer_size(&socket).unwrap();
        // The kernel doubles what it is asked for, to have room for its own.
        assert!(
            granted > usual || usual >= RECEIVE_BYTES,
            "{granted} of {usual}"
        );
        if rustix::process::geteuid().is_root() {
            assert_eq!(granted, 2 * RECEIVE_BYTES);
        }
    }
}
