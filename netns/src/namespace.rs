//! Making and entering network namespaces. A thread belongs to one, so everything that must not
//! move the caller happens on a short-lived thread of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::request::{NetlinkError, change};
use crate::sys;

/// The loopback is the first device of every namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK_INDEX: u32 = 1;

/// Why a namespace could not be made or entered.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// No thread.
    #[error("cannot start a thread for the network namespace")]
    Thread(#[source] io::Error),
    /// The thread ended without an answer.
    #[error("the thread in the network namespace panicked")]
    Panicked,
    /// No new namespace.
    #[error("cannot make a network namespace")]
    Create(#[source] Errno),
    /// The namespace of the thread could not be opened.
    #[error("cannot open the network namespace of this thread")]
    Open(#[source] Errno),
    /// The namespace could not be entered.
    #[error("cannot enter a network namespace")]
    Enter(#[source] Errno),
    /// The loopback could not be switched on.
    #[error("cannot switch the loopback on")]
    Loopback(#[source] NetlinkError),
}

/// A new network namespace with nothing but a loopback that is up. It lives as long as the
/// descriptor or a process in it.
///
/// # Errors
/// The kernel refused, which it does without CAP_SYS_ADMIN.
pub fn create_loopback_only() -> Result<OwnedFd, NamespaceError> {
    on_a_thread(|| {
        sys::unshare_network().map_err(NamespaceError::Create)?;
        let mut up = LinkMessage::default();
        up.header.index = LOOPBACK_INDEX;
        up.header.flags = LinkFlags::Up;
        up.header.change_mask = LinkFlags::Up;
        change("switch the loopback on", RouteNetlinkMessage::SetLink(up))
            .map_err(NamespaceError::Loopback)?;
        current()
    })?
}

/// The network namespace of the calling thread.
///
/// # Errors
/// /proc is not there or cannot be read.
pub fn current() -> Result<OwnedFd, NamespaceError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, c"/proc/thread-self/ns/net", flags, Mode::empty())
        .map_err(NamespaceError::Open)
}

/// Moves the calling thread to a network namespace, for good.
///
/// # Errors
/// The descriptor is no network namespace or the kernel refused.
pub fn enter(namespace: BorrowedFd<'_>) -> Result<(), NamespaceError> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
        .map_err(NamespaceError::Enter)
}

/// Runs `work` on a thread in a network namespace and waits for it. The caller stays where it is.
///
/// # Errors
/// The namespace could not be entered, or `work` panicked.
pub fn within<T: Send>(
    namespace: impl AsFd,
    work: impl FnOnce() -> T + Send,
) -> Result<T, NamespaceError> {
    let namespace = namespace.as_fd();
    on_a_thread(|| enter(namespace).map(|()| work()))?
}

pub(crate) fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    thread::scope(|scope| {
        thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, work)
            .map_err(NamespaceError::Thread)?
            .join()
            .map_err(|_| NamespaceError::Panicked)
    })
}
