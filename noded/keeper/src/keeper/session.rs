//! The one client: its socket, and the packets that it has not taken yet.

use crate::protocol::{Message, Response, encode_for_client};
use crate::report::tell;
use crate::seqpacket;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;

/// Packets held for a client that does not read. A full answer to `List` has 164 pages; a client
/// that is further behind than this is disconnected, and learns the rest from `List` when it comes
/// back.
const QUEUE_MAX: usize = 4096;

/// Whether a session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Drop,
}

#[derive(Debug)]
pub(crate) struct Session {
    socket: OwnedFd,
    protocol: Option<u32>,
    queue: VecDeque<Packet>,
}

/// A message that the client has not taken yet.
#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<Rc<OwnedFd>>,
}

impl Session {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self::inherited(socket, None, Vec::new())
    }

    /// One that this process had when it was another program.
    pub(crate) fn inherited(socket: OwnedFd, protocol: Option<u32>, queue: Vec<Vec<u8>>) -> Self {
        let plain = |bytes| Packet {
            bytes,
            descriptors: Vec::new(),
        };
        Self {
            socket,
            protocol,
            queue: queue.into_iter().map(plain).collect(),
        }
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The version that was agreed on; `None` before the greeting.
    pub(crate) fn protocol(&self) -> Option<u32> {
        self.protocol
    }

    pub(crate) fn agree_on(&mut self, protocol: u32) {
        self.protocol = Some(protocol);
    }

    /// Packets that the client has not taken yet.
    pub(crate) fn queue(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.queue.iter().map(|packet| &packet.bytes)
    }

    /// Whether a packet that waits carries descriptors: no state can hold it.
    pub(crate) fn has_descriptors(&self) -> bool {
        self.queue
            .iter()
            .any(|packet| !packet.descriptors.is_empty())
    }

    /// Queues a message and sends what the socket takes.
    pub(crate) fn send(&mut self, message: Message) -> Fate {
        self.send_with(message, Vec::new())
    }

    /// As [`Self::send`]. Copies of the descriptors travel with the packet.
    pub(crate) fn send_with(&mut self, message: Message, descriptors: Vec<Rc<OwnedFd>>) -> Fate {
        let message = message.in_words_of(self.protocol.unwrap_or(1));
        match encode_for_client(&message) {
            Ok(bytes) => self.queue.push_back(Packet { bytes, descriptors }),
            Err(error) => {
                tell!("keeper: a message was not sent: {error}");
                return Fate::Keep;
            }
        }
        if self.queue.len() > QUEUE_MAX {
            tell!("keeper: the client does not read; disconnecting it");
            return Fate::Drop;
        }
        self.flush()
    }

    pub(crate) fn respond(&mut self, call: crate::protocol::CallId, response: Response) -> Fate {
        self.send(Message::Response { call, response })
    }

    pub(crate) fn flush(&mut self) -> Fate {
        while let Some(packet) = self.queue.front() {
            let descriptors: Vec<_> = packet.descriptors.iter().map(|d| d.as_fd()).collect();
            match seqpacket::send(&self.socket, &packet.bytes, &descriptors) {
                Ok(()) => {
                    self.queue.pop_front();
                }
                Err(Errno::AGAIN) => return Fate::Keep,
                Err(Errno::INTR) => {}
                Err(_) => return Fate::Drop,
            }
        }
        Fate::Keep
    }

    pub(crate) fn waits_to_send(&self) -> bool {
        !self.queue.is_empty()
    }
}
