//! How bytes come out of FIFOs: one trait, two engines. Both deliver through [`Sink`] on the calling thread, which writes the log inline.
//!
//! Either engine holds at most [`READ_BUFFER_BYTES`] that were taken from pipes and not delivered yet: that much may be missing after kill -9.

use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// The size of a default pipe: one read can empty it.
pub(crate) const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Names a stream; never used twice in one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId(pub(crate) u64);

/// Takes what an engine found.
pub(crate) trait Sink {
    /// The next bytes of a stream, in order.
    fn on_data(&mut self, stream: StreamId, bytes: &[u8]);
    /// The engine no longer reads this stream and delivers nothing more for it; comes once per [`Engine::detach`], with the FIFO.
    fn on_detached(&mut self, stream: StreamId, fifo: OwnedFd);
    /// A read failed for a reason that repeating will not mend; the stream must be detached.
    fn on_failed(&mut self, stream: StreamId, errno: Errno);
    /// The control descriptor is readable.
    fn on_control(&mut self);
}

/// Reads any number of FIFOs.
pub(crate) trait Engine {
    fn name(&self) -> &'static str;

    /// Reads `fifo` (O_RDWR, O_NONBLOCK) from now on.
    fn attach(&mut self, stream: StreamId, fifo: OwnedFd) -> Result<(), Errno>;

    /// Stops reading; [`Sink::on_detached`] follows in a later turn. Unknown streams are ignored.
    fn detach(&mut self, stream: StreamId);

    /// Waits at most `timeout` for anything, and delivers what there is.
    fn turn(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> Result<(), Errno>;
}

/// Which engine to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// The ring where the host allows it, else epoll with a warning.
    Automatic,
    Ring,
    Epoll,
}

/// Makes the chosen engine. `control` is polled for reading beside the streams; it stays with the caller, who keeps it open longer.
pub(crate) fn build(
    choice: EngineChoice,
    control: BorrowedFd<'_>,
) -> Result<Box<dyn Engine>, Errno> {
    if choice == EngineChoice::Epoll {
        return Ok(Box::new(super::epoll::EpollEngine::new(control)?));
    }
    match super::ring::RingEngine::new(control) {
        Ok(engine) => Ok(Box::new(engine)),
        Err(errno) if choice == EngineChoice::Ring => Err(errno),
        Err(errno) => {
            eprintln!("pump: warning: this host refuses io_uring ({errno}); reading with epoll");
            Ok(Box::new(super::epoll::EpollEngine::new(control)?))
        }
    }
}
