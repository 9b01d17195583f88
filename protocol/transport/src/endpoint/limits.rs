//! Limits of an endpoint, as its owner gives them and as QUIC is told.

use std::sync::Arc;
use std::time::Duration;

use quinn::{IdleTimeout, TransportConfig, VarInt};

use super::BindError;
use super::window::Floored;

/// Bytes of datagrams that wait to be sent, what keeps them included; the oldest go first. These
/// are about eight heartbeats: where the way is that slow, older ones say nothing any more.
const DATAGRAMS_SENT_BYTES_MAX: usize = 512;
/// And of those that came and were not read yet. Whoever reads none keeps no more than this.
const DATAGRAMS_RECEIVED_BYTES_MAX: usize = 4 * 1024;

/// Limits of an endpoint and of each of its connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// An idle connection is probed this often, in time to keep it from `idle_timeout`.
    pub keep_alive: Duration,
    /// A connection without any packet for this long is dead.
    pub idle_timeout: Duration,
    /// A handshake that takes longer is dropped, on both sides.
    pub handshake_timeout: Duration,
    /// Connections waiting for `Listener::accept`; beyond, they are closed as overloaded.
    pub accept_queue_max: usize,
    /// Connections that are not begun, in count; the library refuses further ones. More than wait
    /// at the door ([`WAITING_NODES_MAX`](crate::door::WAITING_NODES_MAX)).
    pub incoming_max: usize,
    /// Bidirectional streams that a peer may have open at a time. The library keeps about 70 bytes
    /// for each of them from the beginning of a connection, whether or not it is ever opened.
    pub streams_max: u32,
    /// The same for a server that connects here.
    pub server_streams_max: u32,
    /// Unread bytes that a peer may have sent on one stream.
    pub stream_window_bytes: u32,
    /// Unread bytes that a peer may have sent on one connection.
    pub receive_window_bytes: u32,
    /// Bytes handed to a connection and not acknowledged; writers wait beyond. Kept small
    /// because what is in the transport can no longer be overtaken or recalled.
    pub send_window_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            keep_alive: Duration::from_secs(3),
            idle_timeout: Duration::from_secs(12),
            handshake_timeout: Duration::from_secs(5),
            accept_queue_max: 1024,
            incoming_max: 8192,
            streams_max: 80,
            server_streams_max: 1024,
            stream_window_bytes: 1024 * 1024,
            receive_window_bytes: 8 * 1024 * 1024,
            send_window_bytes: 4 * 1024 * 1024,
        }
    }
}

impl Limits {
    /// Lets so many streams of a connection be full of what nobody reads, without any of its other
    /// streams having to wait for that: by default eight are enough to stop all of them. It is what
    /// the peer may send that changes, from the next packet on.
    pub fn make_room(&self, connection: &quinn::Connection, streams: u32) {
        let full = u64::from(self.stream_window_bytes) * u64::from(streams);
        let bytes = full + u64::from(self.receive_window_bytes);
        connection.set_receive_window(VarInt::from_u64(bytes).unwrap_or(VarInt::MAX));
    }
}

/// How far away a peer is thought to be before the first answer: what is lost until then is sent
/// again after three times as long. The usual guess, a third of a second, is the internet's, and
/// costs a node that is just coming back a whole one; a peer that is farther away gets a packet
/// twice.
const INITIAL_RTT: Duration = Duration::from_millis(100);

pub(super) fn transport_config(limits: &Limits) -> Result<TransportConfig, BindError> {
    let Limits {
        keep_alive,
        idle_timeout,
        ..
    } = *limits;
    // A probe must have the time to be lost once.
    if keep_alive * 2 >= idle_timeout {
        return Err(BindError::KeepAlive {
            keep_alive,
            idle_timeout,
        });
    }
    let idle =
        IdleTimeout::try_from(idle_timeout).map_err(|_| BindError::IdleTimeout(idle_timeout))?;
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(idle))
        .initial_rtt(INITIAL_RTT)
        .keep_alive_interval(Some(keep_alive))
        .max_concurrent_bidi_streams(VarInt::from_u32(limits.streams_max))
        // Nothing is said on these.
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(limits.stream_window_bytes))
        .receive_window(VarInt::from_u32(limits.receive_window_bytes))
        .send_window(limits.send_window_bytes)
        .congestion_controller_factory(Arc::new(Floored::default()))
        // Heartbeats and their answers, of which only the newest say anything.
        .datagram_receive_buffer_size(Some(DATAGRAMS_RECEIVED_BYTES_MAX))
        .datagram_send_buffer_size(DATAGRAMS_SENT_BYTES_MAX);
    Ok(transport)
}
