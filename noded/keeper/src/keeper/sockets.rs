//! The listening sockets of tasks that keeper holds for noded: while noded restarts, a connect
//! waits in the kernel's queue. keeper accepts none of the connections.
//!
//! ```text
//!   noded binds --Hold--> held --Take--> the next noded has a copy, keeper goes on holding
//!                          |
//!                          +--Drop, Forget, or another Hold for this task--> closed
//! ```

use crate::protocol::{AllocAndTask, HELD_PER_PAGE_MAX, Refusal};
use crate::seqpacket;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// The sockets, by task.
#[derive(Debug)]
pub(crate) struct HeldSockets {
    sockets_max: usize,
    held: BTreeMap<AllocAndTask, Rc<OwnedFd>>,
}

/// One answer to `Take`: tasks, a descriptor for each, and whether others follow.
pub(crate) type Page = (Vec<AllocAndTask>, Vec<Rc<OwnedFd>>, bool);

impl HeldSockets {
    /// Refuses more than `sockets_max` at once.
    pub(crate) fn new(sockets_max: usize) -> Self {
        Self {
            sockets_max,
            held: BTreeMap::new(),
        }
    }

    /// Holds the first descriptor, in place of the one that was held for this task.
    pub(crate) fn hold(
        &mut self,
        owner: AllocAndTask,
        descriptors: &[OwnedFd],
    ) -> Result<(), Refusal> {
        let socket = descriptors
            .first()
            .ok_or(Refusal::MissingDescriptor { position: 0 })?;
        check_listens(socket)?;
        if !self.held.contains_key(&owner) && self.held.len() >= self.sockets_max {
            return Err(Refusal::TooManySockets {
                sockets: u32::try_from(self.held.len()).unwrap_or(u32::MAX),
            });
        }
        let socket = rustix::io::fcntl_dupfd_cloexec(socket, 3).map_err(refused)?;
        self.keep(owner, socket);
        Ok(())
    }

    /// Holds a socket that the program before held.
    pub(crate) fn keep(&mut self, owner: AllocAndTask, socket: OwnedFd) {
        self.held.insert(owner, Rc::new(socket));
    }

    /// The sockets of tasks after this one, as many as a packet carries.
    pub(crate) fn page(&self, after: Option<&AllocAndTask>) -> Page {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.held.range::<AllocAndTask, _>((from, Bound::Unbounded));
        let page = rest.by_ref().take(HELD_PER_PAGE_MAX);
        let (owners, descriptors) = page
            .map(|(owner, socket)| (owner.clone(), Rc::clone(socket)))
            .unzip();
        (owners, descriptors, rest.next().is_some())
    }

    /// Closes the sockets of an allocation.
    pub(crate) fn drop_alloc(&mut self, alloc: &str) {
        self.held.retain(|owner, _| owner.alloc() != alloc);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AllocAndTask, &OwnedFd)> {
        self.held.iter().map(|(owner, socket)| (owner, &**socket))
    }
}

/// Any other file would be held without use.
fn check_listens(socket: impl AsFd) -> Result<(), Refusal> {
    match seqpacket::is_listening_stream(socket.as_fd()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Refusal::Socket {
            detail: "it is no Unix stream socket that listens".to_owned(),
        }),
        Err(errno) => Err(refused(errno)),
    }
}

fn refused(errno: Errno) -> Refusal {
    Refusal::Socket {
        detail: errno.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn owner(alloc: &str, task: &str) -> AllocAndTask {
        AllocAndTask::new(alloc, task).unwrap()
    }

    fn listener(directory: &tempfile::TempDir, name: &str) -> [OwnedFd; 1] {
        [UnixListener::bind(directory.path().join(name))
            .unwrap()
            .into()]
    }

    #[test]
    fn only_a_listening_unix_socket_is_held_and_only_so_many() {
        let directory = tempfile::tempdir().unwrap();
        let mut sockets = HeldSockets::new(2);
        let refusal = sockets.hold(owner("a", "web"), &[]).unwrap_err();
        assert_eq!(refusal, Refusal::MissingDescriptor { position: 0 });
        let tcp: OwnedFd = std::net::TcpListener::bind("127.0.0.1:0").unwrap().into();
        let pair: OwnedFd = UnixStream::pair().unwrap().0.into();
        let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        for other in [tcp, pair, file] {
            let refusal = sockets.hold(owner("a", "web"), &[other]).unwrap_err();
            assert!(matches!(refusal, Refusal::Socket { .. }), "{refusal}");
        }
        for task in ["one", "two", "two"] {
            let name = format!("{task}-{}", sockets.iter().count());
            let socket = listener(&directory, &name);
            sockets.hold(owner("a", task), &socket).unwrap();
        }
        let socket = listener(&directory, "three");
        let refusal = sockets.hold(owner("a", "three"), &socket).unwrap_err();
        assert_eq!(refusal, Refusal::TooManySockets { sockets: 2 });
        sockets.drop_alloc("a");
        sockets.hold(owner("a", "three"), &socket).unwrap();
    }

    #[test]
    fn pages_name_every_socket_once_and_leave_them_held() {
        let directory = tempfile::tempdir().unwrap();
        let socket = listener(&directory, "socket");
        let mut sockets = HeldSockets::new(1000);
        let all: Vec<AllocAndTask> = (0..HELD_PER_PAGE_MAX * 2 + 1)
            .map(|number| owner("a", &format!("{number:04}")))
            .collect();
        for owner in &all {
            sockets.hold(owner.clone(), &socket).unwrap();
        }
        let (mut seen, mut pages) = (Vec::new(), 0);
        loop {
            let (owners, descriptors, more) = sockets.page(seen.last());
            assert_eq!(owners.len(), descriptors.len());
            assert!(owners.len() <= HELD_PER_PAGE_MAX);
            seen.extend(owners);
            pages += 1;
            if !more {
                break;
            }
        }
        assert_eq!((seen, pages), (all.clone(), 3));
        assert_eq!(sockets.iter().count(), all.len());
        let (owners, _, more) = sockets.page(Some(&owner("b", "web")));
        assert_eq!((owners, more), (Vec::new(), false));
    }
}
