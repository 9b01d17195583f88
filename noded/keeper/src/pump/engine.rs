//! How bytes come out of FIFOs: one trait, two engines. Both deliver through [`Sink`] on the
//! calling thread, which writes the log inline.
//!
//! Either engine holds at most [`READ_BUFFER_BYTES`] that were taken from pipes and not delivered
//! yet: that much may be missing after kill -9.

use crate::report::tell;
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
    /// The engine no longer reads this stream and delivers nothing more for it; comes once per
    /// [`Engine::detach`], with the FIFO.
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

/// Makes the chosen engine. `control` is polled for reading beside the streams; it stays with the
/// caller, who keeps it open longer.
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
            tell!("pump: warning: this host refuses io_uring ({errno}); reading with epoll");
            Ok(Box::new(super::epoll::EpollEngine::new(control)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::epoll::EpollEngine;
    use super::super::ring::RingEngine;
    use super::*;
    use crate::io::{Waiting, make_fifo, open_fifo};
    use crate::sys::ring::ReadMode;
    use rustix::event::{EventfdFlags, eventfd};
    use std::collections::BTreeMap;
    use std::os::fd::AsFd;

    #[derive(Default)]
    struct Collected {
        bytes: BTreeMap<StreamId, Vec<u8>>,
        detached: Vec<StreamId>,
        control: u32,
    }

    impl Sink for Collected {
        fn on_data(&mut self, stream: StreamId, bytes: &[u8]) {
            assert!(
                !self.detached.contains(&stream),
                "nothing is delivered after detach"
            );
            assert!(bytes.len() <= READ_BUFFER_BYTES);
            self.bytes
                .entry(stream)
                .or_default()
                .extend_from_slice(bytes);
        }

        fn on_detached(&mut self, stream: StreamId, _fifo: OwnedFd) {
            self.detached.push(stream);
        }

        fn on_failed(&mut self, stream: StreamId, errno: Errno) {
            panic!("{stream:?} failed: {errno}");
        }

        fn on_control(&mut self) {
            self.control += 1;
        }
    }

    const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

    fn exercise(make: impl Fn(BorrowedFd<'_>) -> Result<Box<dyn Engine>, Errno>) {
        let directory = tempfile::tempdir().unwrap();
        let directory = rustix::fs::open(
            directory.path(),
            rustix::fs::OFlags::DIRECTORY,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        let control = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let mut engine = make(control.as_fd()).unwrap();
        let mut sink = Collected::default();
        let streams: Vec<StreamId> = (0..100).map(StreamId).collect();
        let mut writers = Vec::new();
        for stream in &streams {
            let name = format!("fifo{}", stream.0);
            make_fifo(directory.as_fd(), &name).unwrap();
            let open = || open_fifo(directory.as_fd(), &name, Waiting::NonBlocking).unwrap();
            engine.attach(*stream, open()).unwrap();
            writers.push(open());
        }
        // More streams at once than the ring has buffers, and each more than one buffer holds.
        for round in 0..5_u8 {
            for writer in &writers {
                rustix::io::write(writer, &[round; 6000]).unwrap();
            }
            let wanted = 6000 * (usize::from(round) + 1);
            while sink.bytes.len() < streams.len()
                || sink.bytes.values().any(|bytes| bytes.len() < wanted)
            {
                engine.turn(PATIENCE, &mut sink).unwrap();
            }
        }
        let expected: Vec<u8> = (0..5_u8).flat_map(|round| [round; 6000]).collect();
        assert!(sink.bytes.values().all(|bytes| *bytes == expected));
        rustix::io::write(&control, &1_u64.to_ne_bytes()).unwrap();
        while sink.control == 0 {
            engine.turn(PATIENCE, &mut sink).unwrap();
        }
        rustix::io::read(&control, &mut [0; 8]).unwrap();
        for stream in &streams {
            engine.detach(*stream);
        }
        while sink.detached.len() < streams.len() {
            engine.turn(PATIENCE, &mut sink).unwrap();
        }
    }

    #[test]
    fn epoll_delivers_everything_in_order() {
        exercise(|control| Ok(Box::new(EpollEngine::new(control)?)));
    }

    #[test]
    fn multishot_reads_deliver_everything_in_order() {
        exercise(|control| Ok(Box::new(RingEngine::new(control)?)));
    }

    #[test]
    fn older_kernels_deliver_everything_in_order() {
        for mode in [ReadMode::Multishot, ReadMode::SingleShot] {
            exercise(|control| Ok(Box::new(RingEngine::of_an_older_kernel(control, mode)?)));
        }
    }
}
