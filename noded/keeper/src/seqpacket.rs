//! Packets with descriptors over a Unix socket: the only place that knows ancillary data; and what
//! a descriptor that came with one is.

use crate::protocol::{DESCRIPTORS_MAX, PACKET_BYTES_MAX};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What one `recvmsg` gave.
#[derive(Debug)]
pub(crate) enum Received {
    Packet {
        bytes: Vec<u8>,
        descriptors: Vec<OwnedFd>,
    },
    /// More bytes or descriptors than are allowed; what fitted is dropped.
    TooLarge,
    /// The other side closed.
    Closed,
    /// Nothing is there now.
    WouldBlock,
}

/// Sends one packet whole, or fails with `AGAIN` when the socket's buffer is full.
pub(crate) fn send(
    socket: impl AsFd,
    packet: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOMANYREFS);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(packet)], &mut ancillary, flags).map(drop)
}

/// Whether a descriptor is a Unix stream socket that listens.
pub(crate) fn is_listening_stream(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(socket_domain(socket)? == AddressFamily::UNIX
        && socket_type(socket)? == SocketType::STREAM
        && socket_acceptconn(socket)?)
}

/// Receives one packet without waiting. Descriptors arrive close-on-exec.
pub(crate) fn receive(socket: impl AsFd) -> Result<Received, Errno> {
    let mut bytes = vec![0; PACKET_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = match recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut ancillary,
        flags,
    ) {
        Ok(message) => message,
        Err(Errno::AGAIN) => return Ok(Received::WouldBlock),
        Err(Errno::CONNRESET | Errno::PIPE) => return Ok(Received::Closed),
        Err(errno) => return Err(errno),
    };
    let mut descriptors = Vec::new();
    for ancillary_message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = ancillary_message {
            descriptors.extend(rights);
        }
    }
    if message
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Ok(Received::TooLarge);
    }
    if message.bytes == 0 {
        return Ok(Received::Closed);
    }
    bytes.truncate(message.bytes);
    bytes.shrink_to_fit();
    Ok(Received::Packet { bytes, descriptors })
}
