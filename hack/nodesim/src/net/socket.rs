//! The socket of all nodes: packets of those that are cut off do not get through it, and those of
//! the others meet the weather there is.
//!
//! Header forms: RFC 8999, section 5. A long header names both ids of a connection; a short one
//! only the receiver's, whose length is the receiver's own matter.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use super::late::{Late, Leavers};
use super::weather::Sky;
use super::wire::{CONNECTION_ID_BYTES, ConnectionId, Wires, with_driven};

const LONG_HEADER: u8 = 0x80;
/// Where the length of the receiver's id stands in a long header: after the first byte and the
/// version.
const LONG_ID_LENGTH_AT: usize = 5;

/// See the top of this file.
#[derive(Debug)]
pub(super) struct WiredSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    wires: Arc<Wires>,
    sky: Arc<Sky>,
    leavers: Leavers,
    /// Only the endpoint's one driver asks for packets.
    late: Mutex<Late>,
}

impl WiredSocket {
    /// Needs a tokio runtime.
    pub(super) fn new(inner: Arc<dyn AsyncUdpSocket>, wires: Arc<Wires>, sky: Arc<Sky>) -> Self {
        Self {
            leavers: Leavers::start(Arc::clone(&inner)),
            inner,
            wires,
            sky,
            late: Mutex::default(),
        }
    }

    /// Packets that arrive just now, without those that a cut takes.
    fn poll_arriving(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.inner.poll_recv(context, buffers, metas))?;
        for (buffer, meta) in buffers.iter_mut().zip(metas.iter_mut()).take(count) {
            meta.len = keep(buffer, meta.len, meta.stride, |packet| {
                destination(packet).is_none_or(|id| self.wires.passes(id))
            });
        }
        Poll::Ready(Ok(count))
    }
}

impl AsyncUdpSocket for WiredSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let passes = with_driven(|driven| {
            if driven.id.is_none()
                && let Some(id) = source(transmit.contents)
            {
                driven.id = Some(id);
                self.wires.learn(id, &driven.wire);
            }
            driven.wire.passes()
        });
        if passes == Some(false) {
            return Ok(());
        }
        let weather = self.sky.weather();
        if weather.is_calm() {
            return self.inner.try_send(transmit);
        }
        self.leavers.take(transmit, weather, &self.sky);
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let weather = self.sky.weather();
        let mut late = self.late.lock();
        if weather.is_calm() && late.is_empty() {
            return self.poll_arriving(context, buffers, metas);
        }
        while let Poll::Ready(count) = self.poll_arriving(context, buffers, metas)? {
            for (buffer, meta) in buffers.iter().zip(metas.iter()).take(count) {
                late.take_in(&buffer[..meta.len], *meta, weather, &self.sky);
            }
        }
        late.poll_due(context, buffers, metas).map(Ok)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Moves the packets that pass together, in a buffer of packets of `stride` bytes, the last one
/// perhaps shorter; returns how long what is left is.
fn keep(buffer: &mut [u8], len: usize, stride: usize, passes: impl Fn(&[u8]) -> bool) -> usize {
    let stride = stride.max(1);
    let mut kept = 0;
    let mut at = 0;
    while at < len {
        let end = (at + stride).min(len);
        if passes(&buffer[at..end]) {
            if kept != at {
                buffer.copy_within(at..end, kept);
            }
            kept += end - at;
        }
        at = end;
    }
    kept
}

/// The id of the receiver's end.
fn destination(packet: &[u8]) -> Option<ConnectionId> {
    let first = *packet.first()?;
    let at = if first & LONG_HEADER == 0 {
        1
    } else {
        if usize::from(*packet.get(LONG_ID_LENGTH_AT)?) != CONNECTION_ID_BYTES {
            return None;
        }
        LONG_ID_LENGTH_AT + 1
    };
    packet.get(at..at + CONNECTION_ID_BYTES)?.try_into().ok()
}

/// The id of the sender's end, which only long headers have.
fn source(packet: &[u8]) -> Option<ConnectionId> {
    if packet.first()? & LONG_HEADER == 0 {
        return None;
    }
    let destination = usize::from(*packet.get(LONG_ID_LENGTH_AT)?);
    let at = LONG_ID_LENGTH_AT + 1 + destination;
    if usize::from(*packet.get(at)?) != CONNECTION_ID_BYTES {
        return None;
    }
    packet
        .get(at + 1..at + 1 + CONNECTION_ID_BYTES)?
        .try_into()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ids_are_found_in_a_long_header_and_one_in_a_short_one() {
        let mut long = vec![0xc0, 0, 0, 0, 1, 8];
        long.extend([1; 8]);
        long.push(8);
        long.extend([2; 8]);
        assert_eq!(destination(&long), Some([1; 8]));
        assert_eq!(source(&long), Some([2; 8]));
        let mut short = vec![0x40];
        short.extend([3; 8]);
        assert_eq!(destination(&short), Some([3; 8]));
        assert_eq!(source(&short), None);
        for cut in 0..long.len() {
            assert_eq!(source(&long[..cut]), None);
        }
        assert_eq!(destination(&short[..8]), None);
    }

    #[test]
    fn what_passes_is_moved_together_and_what_does_not_is_gone() {
        let mut buffer = *b"aabbccd----";
        let len = keep(&mut buffer, 7, 2, |packet| packet != b"bb");
        assert_eq!(&buffer[..len], b"aaccd");
        let mut buffer = *b"aabbccd----";
        let len = keep(&mut buffer, 7, 2, |packet| packet != b"d");
        assert_eq!(&buffer[..len], b"aabbcc");
        let len = keep(&mut buffer, 6, 2, |_| false);
        assert_eq!(len, 0);
    }
}
