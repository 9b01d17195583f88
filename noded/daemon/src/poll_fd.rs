//! Owned descriptors in the runtime's poll.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that the runtime polls for reading and writing.
///
/// # Errors
/// Where it cannot be polled.
pub(crate) fn poll(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    poll_for(descriptor, Interest::READABLE | Interest::WRITABLE)
}

/// A descriptor that the runtime polls for something else.
///
/// # Errors
/// Where it cannot be polled.
pub(crate) fn poll_for<D: AsRawFd>(descriptor: D, interest: Interest) -> io::Result<AsyncFd<D>> {
    #[expect(
        deprecated,
        reason = "its successor is `unsafe` for types whose descriptor may change; those of this \
                  crate are an OwnedFd or a listener, and theirs never does"
    )]
    AsyncFd::with_interest(descriptor, interest)
}
