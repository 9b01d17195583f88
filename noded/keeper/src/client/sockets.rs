//! The sockets of tasks that keeper held while no noded was there.

use super::{
    Connection, ConnectionError, EARLY_MESSAGES_MAX, receive_with_descriptors, wait_readable,
};
use crate::protocol::{AllocAndTask, Message, Refusal, Request, Response};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long one page may take; keeper answers within microseconds or is stopped.
const PAGE_MAX: Duration = Duration::from_secs(10);

/// A listening socket, and the task that it is of.
#[derive(Debug)]
pub struct HeldSocket {
    pub owner: AllocAndTask,
    pub socket: OwnedFd,
}

/// Why the sockets were not taken. keeper goes on holding them.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    #[error("the running keeper is of a release that holds no sockets")]
    TooOld,
    #[error("keeper refused")]
    Refused(#[source] Refusal),
    #[error("the connection to keeper broke while sockets were taken")]
    Connection(#[source] ConnectionError),
    #[error("keeper did not answer `Take` within {PAGE_MAX:?}")]
    TimedOut,
    #[error("keeper's answer to `Take` names {owners} sockets and carries {descriptors}")]
    Count { owners: usize, descriptors: usize },
    #[error("keeper said {response:?}, which is no answer to `Take`")]
    Answer { response: Box<Response> },
}

impl Connection {
    /// Copies of all sockets that keeper holds; it goes on holding them. Waits for each page.
    ///
    /// # Errors
    /// Where keeper is too old or does not answer.
    pub fn take_sockets(&mut self) -> Result<Vec<HeldSocket>, TakeError> {
        if self.welcome.protocol < u32::from(Request::Take { after: None }.since()) {
            return Err(TakeError::TooOld);
        }
        let mut held: Vec<HeldSocket> = Vec::new();
        loop {
            let (page, more) = self.take_page(held.last().map(|last| last.owner.clone()))?;
            let is_empty = page.is_empty();
            held.extend(page);
            if !more || is_empty {
                return Ok(held);
            }
        }
    }

    fn take_page(
        &mut self,
        after: Option<AllocAndTask>,
    ) -> Result<(Vec<HeldSocket>, bool), TakeError> {
        let asked = self
            .send(&Request::Take { after }, &[])
            .map_err(TakeError::Connection)?;
        let end = Instant::now() + PAGE_MAX;
        while self.early.len() < EARLY_MESSAGES_MAX {
            let received = receive_with_descriptors(&self.socket);
            match received.map_err(TakeError::Connection)? {
                Some((Message::Response { call, response }, descriptors)) if call == asked => {
                    return page(response, descriptors);
                }
                Some((other, _)) => self.early.push_back(other),
                None => {
                    let readable = wait_readable(self.socket.as_fd(), end);
                    if !readable.map_err(TakeError::Connection)? {
                        break;
                    }
                }
            }
        }
        Err(TakeError::TimedOut)
    }
}

fn page(
    response: Response,
    descriptors: Vec<OwnedFd>,
) -> Result<(Vec<HeldSocket>, bool), TakeError> {
    match response {
        Response::Held { owners, more } if owners.len() == descriptors.len() => {
            let pairs = owners.into_iter().zip(descriptors);
            let held = pairs.map(|(owner, socket)| HeldSocket { owner, socket });
            Ok((held.collect(), more))
        }
        Response::Held { owners, .. } => Err(TakeError::Count {
            owners: owners.len(),
            descriptors: descriptors.len(),
        }),
        Response::Refused(refusal) => Err(TakeError::Refused(refusal)),
        other => Err(TakeError::Answer {
            response: Box::new(other),
        }),
    }
}

/// The file that a listening Unix socket is bound to, whether it still has that name or not: the
/// kernel's word, not the socket's address, which is a path of the process that bound it. The
/// answer is open as `O_PATH`. Needs CAP_NET_ADMIN.
///
/// # Errors
/// `INVAL` where it is no Unix stream socket that listens; the kernel's reason otherwise.
pub fn bound_file(socket: impl AsFd) -> Result<OwnedFd, Errno> {
    let socket = socket.as_fd();
    if !crate::seqpacket::is_listening_stream(socket)? {
        return Err(Errno::INVAL);
    }
    crate::sys::unix_file::of(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn bound_file_is_the_sockets_own_also_after_another_took_its_name() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root, for CAP_NET_ADMIN");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let inode = path.metadata().unwrap().ino();
        let of = |listener: &UnixListener| fstat(bound_file(listener).unwrap()).unwrap().st_ino;
        assert_eq!(of(&listener), inode);
        std::fs::rename(&path, directory.path().join("moved")).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        assert_eq!(of(&listener), inode);
        assert_ne!(of(&other), inode);
        let (near, _far) = UnixStream::pair().unwrap();
        assert_eq!(bound_file(&near).unwrap_err(), Errno::INVAL);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(bound_file(&file).unwrap_err(), Errno::NOTSOCK);
    }
}
