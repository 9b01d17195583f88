//! The process that has connected to a task's socket: one of the task, or a stranger.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};
use nix::sys::socket::{UnixCredentials, getsockopt};
use noded_core::task_api::peer::{cgroup_of, is_of_task};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::SocketOwner;
use crate::config::Peers;

/// Which processes may connect to a socket.
#[derive(Clone, Debug)]
pub(super) struct PeerRule {
    peers: Peers,
    tasks: String,
    alloc: String,
    task: String,
    uid: u32,
}

/// A process that may not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stranger {
    pub(super) pid: i32,
    pub(super) uid: u32,
    pub(super) reason: &'static str,
}

impl PeerRule {
    pub(super) fn new(peers: Peers, tasks: &str, owner: &SocketOwner, uid: u32) -> Self {
        Self {
            peers,
            tasks: tasks.to_owned(),
            alloc: owner.alloc.to_string(),
            task: owner.task.clone(),
            uid,
        }
    }

    /// The user of the process that has connected.
    ///
    /// # Errors
    /// Where the process may not.
    pub(super) fn check(&self, stream: &impl AsFd) -> Result<u32, Stranger> {
        let credentials = getsockopt(&stream.as_fd(), PeerCredentials);
        let (pid, uid) =
            credentials.map_or((0, u32::MAX), |it: UnixCredentials| (it.pid(), it.uid()));
        let judged = match self.peers {
            Peers::Any => Ok(()),
            Peers::User if uid == self.uid => Ok(()),
            Peers::User => Err("it is of another user"),
            // Zero is a process of a namespace that this one does not see.
            Peers::Cgroup if pid <= 0 => Err("it is not visible from here"),
            Peers::Cgroup => self.check_cgroup(stream.as_fd(), pid),
        };
        judged.map_err(|reason| Stranger { pid, uid, reason })?;
        Ok(uid)
    }

    /// A number may be another process's by the time its cgroup is read. The process that has
    /// connected still lives after that where its pidfd says so; before Linux 6.5, where it has the
    /// start time of before.
    fn check_cgroup(&self, stream: BorrowedFd<'_>, pid: i32) -> Result<(), &'static str> {
        let ended = "it has ended";
        let pidfd = match getsockopt(&stream, PeerPidfd) {
            Ok(pidfd) => Some(pidfd),
            Err(nix::errno::Errno::ENOPROTOOPT) => None,
            Err(_) => return Err(ended),
        };
        let started = start_time(pid).ok_or(ended)?;
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(|_| ended)?;
        let is_same = match &pidfd {
            Some(pidfd) => is_alive(pidfd.as_fd()),
            None => start_time(pid) == Some(started),
        };
        if !is_same {
            return Err(ended);
        }
        let cgroup = cgroup_of(&text).ok_or("it is in no cgroup")?;
        match is_of_task(cgroup, &self.tasks, &self.alloc, &self.task) {
            true => Ok(()),
            false => Err("it is not of the task"),
        }
    }
}

/// A pidfd is readable once its process has ended (pidfd_open(2)).
fn is_alive(pidfd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(&pidfd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())) == Ok(0)
}

/// Field 22 of `/proc/PID/stat` (proc_pid_stat(5)). The name before it may hold anything.
fn start_time(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod threat_21;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use protocol_model::AllocId;

    use super::*;

    fn rule(peers: Peers, uid: u32) -> PeerRule {
        let owner = SocketOwner {
            alloc: AllocId::from_u128(1),
            task: "web".to_owned(),
        };
        PeerRule::new(peers, "drover/tasks", &owner, uid)
    }

    #[test]
    fn a_process_outside_of_the_task_is_a_stranger_by_its_cgroup() {
        let (near, _far) = UnixStream::pair().expect("a pair");
        let own = rustix::process::getuid().as_raw();
        let stranger = rule(Peers::Cgroup, own).check(&near).expect_err("no task");
        assert_eq!(stranger.reason, "it is not of the task");
        assert_eq!(rule(Peers::User, own).check(&near), Ok(own));
        assert_eq!(rule(Peers::Any, own + 1).check(&near), Ok(own));
        let stranger = rule(Peers::User, own + 1)
            .check(&near)
            .expect_err("another");
        assert_eq!(
            (stranger.uid, stranger.reason),
            (own, "it is of another user")
        );
    }

    #[test]
    fn own_process_has_a_start_time() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert!(start_time(own).is_some_and(|time| time > 0));
        assert_eq!(start_time(i32::MAX), None);
    }
}
