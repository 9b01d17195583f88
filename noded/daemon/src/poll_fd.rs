//! Owned descriptors in the runtime's poll.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// A descriptor that the runtime polls for reading and writing.
///
/// # Errors
/// Where it cannot be polled.
pub(crate) fn poll(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(
        deprecated,
        reason = "its successor is `unsafe` for types whose descriptor may change; an OwnedFd's \
                  never does"
    )]
    AsyncFd::new(descriptor)
}
