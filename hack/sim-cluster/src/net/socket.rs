//! A UDP socket in memory, as QUIC asks for one.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use super::{Inbox, Network, Packet};

/// See the top of this file.
#[derive(Debug)]
pub struct SimSocket {
    network: Network,
    address: SocketAddr,
    inbox: Arc<Inbox>,
}

impl SimSocket {
    pub(super) fn new(network: Network, address: SocketAddr, inbox: Arc<Inbox>) -> Self {
        Self {
            network,
            address,
            inbox,
        }
    }
}

impl AsyncUdpSocket for SimSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if self.inbox.waiting.lock().unplugged {
            return Ok(());
        }
        let length = transmit.contents.len().max(1);
        for bytes in transmit
            .contents
            .chunks(transmit.segment_size.unwrap_or(length))
        {
            self.network.send(Packet {
                from: self.address,
                to: transmit.destination,
                bytes: bytes.to_vec(),
            });
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut waiting = self.inbox.waiting.lock();
        let mut count = 0;
        for (buffer, meta) in buffers.iter_mut().zip(metas.iter_mut()) {
            let Some(packet) = waiting.packets.pop_front() else {
                break;
            };
            let length = packet.bytes.len().min(buffer.len());
            buffer[..length].copy_from_slice(&packet.bytes[..length]);
            *meta = RecvMeta {
                addr: packet.from,
                len: length,
                stride: length,
                ecn: None,
                dst_ip: Some(self.address.ip()),
            };
            count += 1;
        }
        if count > 0 {
            return Poll::Ready(Ok(count));
        }
        waiting.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// The network takes whatever it is given.
#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
