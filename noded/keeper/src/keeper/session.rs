//! The one client: its socket, and the packets that it has not taken yet.

use crate::protocol::{Message, Response, encode_for_client};
use crate::report::tell;
use crate::seqpacket;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Packets held for a client that does not read. A full answer to `List` has 164 pages; a client
/// that is further behind than this is disconnected, and learns the rest from `List` when it comes
/// back.
const QUEUE_MAX: usize = 4096;

/// Whether the client has said Hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeting {
    Awaited,
    Done,
}

/// Whether a session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Drop,
}

/// What epoll should wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    ReadAndWrite,
}

#[derive(Debug)]
pub(crate) struct Session {
    socket: OwnedFd,
    pub(crate) greeting: Greeting,
    queue: VecDeque<Vec<u8>>,
}

impl Session {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            greeting: Greeting::Awaited,
            queue: VecDeque::new(),
        }
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Queues a message and sends what the socket takes.
    pub(crate) fn send(&mut self, message: &Message) -> Fate {
        match encode_for_client(message) {
            Ok(packet) => self.queue.push_back(packet),
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
        self.send(&Message::Response { call, response })
    }

    pub(crate) fn flush(&mut self) -> Fate {
        while let Some(packet) = self.queue.front() {
            match seqpacket::send(&self.socket, packet, &[]) {
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

    pub(crate) fn interest(&self) -> Interest {
        if self.queue.is_empty() {
            Interest::Read
        } else {
            Interest::ReadAndWrite
        }
    }
}
