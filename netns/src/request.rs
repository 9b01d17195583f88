//! One question to the kernel, and its answer.

use std::fmt::Debug;
use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;

use crate::reply::{BadReply, Progress, Reply};

/// How often an inconsistent dump is asked for again.
const ATTEMPTS: u32 = 5;

/// Why the kernel gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// No socket.
    #[error("cannot open a netlink socket")]
    Socket(#[source] io::Error),
    /// The request could not be sent.
    #[error("cannot send a netlink request to {operation}")]
    Send {
        /// What was asked.
        operation: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No answer could be received.
    #[error("cannot receive the netlink answer to {operation}")]
    Receive {
        /// What was asked.
        operation: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel refused.
    #[error("the kernel refused to {operation}{}", reason.as_deref().map(|words| format!(": {words}")).unwrap_or_default())]
    Refused {
        /// What was asked.
        operation: &'static str,
        /// The kernel's own sentence, where it has one.
        reason: Option<String>,
        /// The error number.
        #[source]
        source: Errno,
    },
    /// The answer could not be understood.
    #[error("cannot understand the netlink answer to {operation}: {reason}")]
    Malformed {
        /// What was asked.
        operation: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The kernel's tables changed during every attempt.
    #[error("the network kept changing during {ATTEMPTS} attempts to {operation}")]
    Interrupted {
        /// What was asked.
        operation: &'static str,
    },
}

/// The messages of one family of netlink.
pub(crate) trait Message:
    NetlinkSerializable + NetlinkDeserializable + Clone + Debug
{
    /// The family: `NETLINK_...`.
    const PROTOCOL: isize;
}

impl Message for RouteNetlinkMessage {
    const PROTOCOL: isize = NETLINK_ROUTE;
}

/// Asks for all entries of a table.
pub(crate) fn dump<M: Message>(
    operation: &'static str,
    question: &M,
) -> Result<Vec<M>, NetlinkError> {
    let socket = open(M::PROTOCOL)?;
    for sequence in 1..=ATTEMPTS {
        let (progress, messages) =
            exchange(&socket, operation, question.clone(), NLM_F_DUMP, sequence)?;
        if progress == Progress::Complete {
            return Ok(messages);
        }
    }
    Err(NetlinkError::Interrupted { operation })
}

/// Changes something and waits for the acknowledgement.
pub(crate) fn change(
    operation: &'static str,
    order: RouteNetlinkMessage,
) -> Result<(), NetlinkError> {
    exchange(&open(NETLINK_ROUTE)?, operation, order, NLM_F_ACK, 1).map(drop)
}

/// A socket of a family, for the kernel and in the namespace of the calling thread.
pub(crate) fn open(protocol: isize) -> Result<Socket, NetlinkError> {
    let mut socket = Socket::new(protocol).map_err(NetlinkError::Socket)?;
    socket.bind_auto().map_err(NetlinkError::Socket)?;
    socket
        .connect(&SocketAddr::new(0, 0))
        .map_err(NetlinkError::Socket)?;
    // The kernel's own words for a refusal, and no request it does not fully understand. Both are
    // refinements that all supported kernels have; without them errors are only less clear.
    let _less_clear = socket.set_ext_ack(true);
    let _less_strict = socket.set_netlink_get_strict_chk(true);
    Ok(socket)
}

fn exchange<M: Message>(
    socket: &Socket,
    operation: &'static str,
    message: M,
    flags: u16,
    sequence: u32,
) -> Result<(Progress, Vec<M>), NetlinkError> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket
        .send(&bytes, 0)
        .map_err(|source| NetlinkError::Send { operation, source })?;

    let mut reply = Reply::new(sequence);
    loop {
        let (datagram, sender) = socket
            .recv_from_full()
            .map_err(|source| NetlinkError::Receive { operation, source })?;
        // Another process may send to this socket; only the kernel has port 0.
        if sender.port_number() != 0 {
            continue;
        }
        match reply.on_datagram(&datagram) {
            Ok(Progress::Collecting) => {}
            Ok(done) => return Ok((done, reply.into_messages())),
            Err(BadReply::Refused { errno, reason }) => {
                return Err(NetlinkError::Refused {
                    operation,
                    reason,
                    source: errno,
                });
            }
            Err(BadReply::Malformed { reason }) => {
                return Err(NetlinkError::Malformed { operation, reason });
            }
        }
    }
}
