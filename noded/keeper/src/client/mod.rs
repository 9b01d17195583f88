//! noded's side of the keeper socket, and the start of both processes.

mod launch;
mod sockets;
mod upgrade;

use crate::memfd;
use crate::paths::RuntimePaths;
use crate::protocol::{
    CallId, Message, PROTOCOL_VERSIONS, PacketError, PlanBytesError, Refusal, Request, Response,
    VersionRange, decode_from_keeper, encode_for_keeper, encode_plan,
};
use crate::seqpacket::{self, Received};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::time::Timespec;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use launch::{Launch, LaunchError, Starter, ensure_pump_running, ensure_running};
pub use sockets::{HeldSocket, TakeError, bound_file};
pub use upgrade::{Upgrade, UpgradeError, end_outdated_pump, ensure_current};

/// How long the greeting may take; keeper answers within microseconds or is stopped.
const GREETING_MAX: Duration = Duration::from_secs(5);

/// Messages that may arrive before the answer to the greeting (events of a busy host).
const EARLY_MESSAGES_MAX: usize = 4096;

/// What went wrong with the connection. After any of these it is to be dropped and made anew;
/// `List` then tells what was missed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error("no keeper answers at {}", .path.display())]
    Connect {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("the request cannot be encoded")]
    Encode(#[source] PacketError),
    #[error("the request is of version {since}, and keeper speaks {spoken}")]
    NotSpoken { since: u8, spoken: u32 },
    #[error("the request cannot be sent")]
    Send(#[source] Errno),
    #[error("keeper's message cannot be received")]
    Receive(#[source] Errno),
    #[error("keeper's message cannot be decoded")]
    Decode(#[source] PacketError),
    #[error("keeper sent a packet beyond the size limit")]
    TooLarge,
    #[error("keeper closed the connection")]
    Closed,
    #[error("keeper did not answer the greeting in time")]
    GreetingTimedOut,
    #[error("keeper refused the greeting")]
    GreetingRefused(#[source] Refusal),
}

/// What keeper said of itself in answer to the greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    pub protocol: u32,
    /// The versions of plan steps that keeper applies; plan within them.
    pub steps: VersionRange,
    pub keeper_pid: u32,
}

/// A greeted connection to keeper. It never waits: poll [`AsFd::as_fd`] for reading, then
/// [`Connection::recv`] until it answers `None`.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    next_call: u32,
    welcome: Welcome,
    early: VecDeque<Message>,
}

impl Connection {
    /// Connects and greets; the only call that waits, at most five seconds for each.
    ///
    /// # Errors
    /// Where no keeper is there, or it shares no version with this client.
    pub fn connect(paths: &RuntimePaths) -> Result<Self, ConnectionError> {
        Self::connect_within(paths, GREETING_MAX)
    }

    /// `limit` is for each of the two waits: to be accepted, and to be greeted.
    fn connect_within(paths: &RuntimePaths, limit: Duration) -> Result<Self, ConnectionError> {
        let path = paths.socket();
        let failed = |source| ConnectionError::Connect {
            path: path.clone(),
            source,
        };
        let address = SocketAddrUnix::new(&path).map_err(failed)?;
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(failed)?;
        // A keeper that is stopped has a full queue one day, and connecting would wait for ever.
        set_socket_timeout(&socket, Timeout::Send, Some(limit)).map_err(failed)?;
        connect(&socket, &address).map_err(failed)?;
        let hello = hello();
        let call = CallId(0);
        let packet = encode_for_keeper(call, &hello).map_err(ConnectionError::Encode)?;
        seqpacket::send(&socket, &packet, &[]).map_err(ConnectionError::Send)?;
        let (welcome, early) = await_welcome(&socket, call, limit)?;
        Ok(Self {
            socket,
            next_call: 1,
            welcome,
            early,
        })
    }

    /// Sends one request with its descriptors, whole or not at all. The id comes back in its
    /// response.
    ///
    /// # Errors
    /// [`ConnectionError::NotSpoken`] where the keeper is too old for it: nothing was sent, and the
    /// connection is as good as before.
    /// [`ConnectionError::Send`] with `AGAIN` while the socket's buffer is full: try again after
    /// polling for writing.
    pub fn send(
        &mut self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<CallId, ConnectionError> {
        let (since, spoken) = (request.since(), self.welcome.protocol);
        if u32::from(since) > spoken {
            return Err(ConnectionError::NotSpoken { since, spoken });
        }
        let call = CallId(self.next_call);
        let packet = encode_for_keeper(call, request).map_err(ConnectionError::Encode)?;
        seqpacket::send(&self.socket, &packet, descriptors).map_err(ConnectionError::Send)?;
        self.next_call = self.next_call.wrapping_add(1);
        Ok(call)
    }

    /// The next message, if one is there.
    ///
    /// # Errors
    /// Where keeper is gone, or sends what cannot be understood.
    pub fn recv(&mut self) -> Result<Option<Message>, ConnectionError> {
        match self.early.pop_front() {
            Some(message) => Ok(Some(message)),
            None => receive(&self.socket),
        }
    }

    /// Waits for the next message. For tools and tests; noded polls.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn recv_within(&mut self, timeout: Duration) -> Result<Option<Message>, ConnectionError> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(message) = self.recv()? {
                return Ok(Some(message));
            }
            if !wait_readable(self.socket.as_fd(), end)? {
                return Ok(None);
            }
        }
    }

    #[must_use]
    pub fn welcome(&self) -> Welcome {
        self.welcome
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Puts a plan into a memfd that nobody can change any more: descriptor 0 of a `Spawn`.
///
/// # Errors
/// Where the plan cannot be encoded, or the kernel has no memory for it.
pub fn seal_plan(plan: &isolation::Plan) -> Result<OwnedFd, SealPlanError> {
    let bytes = encode_plan(plan).map_err(SealPlanError::Encode)?;
    memfd::seal("drover-plan", &bytes).map_err(SealPlanError::Memory)
}

/// Why a plan could not be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealPlanError {
    #[error("the plan cannot be encoded")]
    Encode(#[source] PlanBytesError),
    #[error("no memory file could be made for the plan")]
    Memory(#[source] Errno),
}

fn hello() -> Request {
    Request::Hello {
        protocol: PROTOCOL_VERSIONS,
        steps: crate::keeper::STEP_VERSIONS,
    }
}

fn await_welcome(
    socket: &OwnedFd,
    greeting: CallId,
    limit: Duration,
) -> Result<(Welcome, VecDeque<Message>), ConnectionError> {
    let end = Instant::now() + limit;
    let mut early = VecDeque::new();
    while early.len() < EARLY_MESSAGES_MAX {
        match receive(socket)? {
            Some(Message::Response { call, response }) if call == greeting => {
                return match response {
                    Response::Welcome {
                        protocol,
                        steps,
                        keeper_pid,
                    } => Ok((
                        Welcome {
                            protocol,
                            steps,
                            keeper_pid,
                        },
                        early,
                    )),
                    Response::Refused(refusal) => Err(ConnectionError::GreetingRefused(refusal)),
                    Response::Accepted
                    | Response::Stopping { .. }
                    | Response::Listing { .. }
                    | Response::Held { .. }
                    | Response::Pong { .. } => Err(ConnectionError::GreetingTimedOut),
                };
            }
            Some(other) => early.push_back(other),
            None => {
                if !wait_readable(socket.as_fd(), end)? {
                    return Err(ConnectionError::GreetingTimedOut);
                }
            }
        }
    }
    Err(ConnectionError::GreetingTimedOut)
}

fn receive(socket: &OwnedFd) -> Result<Option<Message>, ConnectionError> {
    Ok(receive_with_descriptors(socket)?.map(|(message, _)| message))
}

fn receive_with_descriptors(
    socket: &OwnedFd,
) -> Result<Option<(Message, Vec<OwnedFd>)>, ConnectionError> {
    match seqpacket::receive(socket).map_err(ConnectionError::Receive)? {
        Received::Packet { bytes, descriptors } => decode_from_keeper(&bytes)
            .map(|message| Some((message, descriptors)))
            .map_err(ConnectionError::Decode),
        Received::TooLarge => Err(ConnectionError::TooLarge),
        Received::Closed => Err(ConnectionError::Closed),
        Received::WouldBlock => Ok(None),
    }
}

fn wait_readable(socket: BorrowedFd<'_>, end: Instant) -> Result<bool, ConnectionError> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(ConnectionError::Receive(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, listen};

    #[test]
    fn a_keeper_that_accepts_nobody_is_not_waited_for_without_end() {
        let directory = tempfile::tempdir().unwrap();
        let paths = RuntimePaths::new(directory.path());
        let make = || {
            socket_with(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )
        };
        let address = SocketAddrUnix::new(paths.socket()).unwrap();
        let listener = make().unwrap();
        bind(&listener, &address).unwrap();
        listen(&listener, 0).unwrap();
        let limit = Duration::from_millis(20);
        // Queued, and never greeted.
        let waiting = make().unwrap();
        connect(&waiting, &address).unwrap();
        let error = Connection::connect_within(&paths, limit).unwrap_err();
        assert!(
            matches!(
                error,
                ConnectionError::Connect {
                    source: Errno::AGAIN,
                    ..
                }
            ),
            "{error}"
        );
        drop(waiting);
        drop(listener);
    }
}
