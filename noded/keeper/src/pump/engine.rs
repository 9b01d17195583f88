//! How bytes come out of FIFOs: one trait, two engines. Both deliver through [`Sink`] on the
//! calling thread, which writes the log inline.
//!
//! Neither is much faster than the other (`examples/pump_engines.rs` compares them), because most
//! of the cost is that of copying and of writing to files: CPU time is equal for one busy stream,
//! the ring needs some 5 % less of it with eight, and up to 8 % more where many streams have
//! a line now and then.
//!
//! Either engine holds at most [`READ_BUFFER_BYTES`] that were taken from one pipe and not
//! delivered yet: that much may be missing after kill -9.

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
    /// The ring where the host allows it and its kernel is not older than Linux 6.12, else epoll,
    /// with a line that says so.
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
        Ok(engine) => return Ok(Box::new(engine)),
        Err(errno) if choice == EngineChoice::Ring => return Err(errno),
        Err(Errno::OPNOTSUPP) => {
            tell!("pump: io_uring pays from Linux 6.12 on; reading with epoll");
        }
        Err(errno) => {
            tell!("pump: warning: this host refuses io_uring ({errno}); reading with epoll");
        }
    }
    Ok(Box::new(super::epoll::EpollEngine::new(control)?))
}

impl EngineChoice {
    /// Whether pump could follow the choice on this host.
    #[must_use]
    pub fn is_possible(self) -> bool {
        match self {
            Self::Automatic | Self::Epoll => true,
            Self::Ring => super::ring::RingEngine::is_possible(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Waiting, make_fifo, open_fifo};
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

    /// An engine, what it tells, and the writers' ends of its streams.
    struct Bench {
        engine: Box<dyn Engine>,
        sink: Collected,
        control: OwnedFd,
        writers: Vec<(StreamId, OwnedFd)>,
    }

    impl Bench {
        /// `None`, with a line that says so, where this host has no such engine.
        fn new(choice: EngineChoice, streams: u64) -> Option<Self> {
            if !choice.is_possible() {
                eprintln!("skipped: needs io_uring of Linux 6.12");
                return None;
            }
            let directory = tempfile::tempdir().unwrap();
            let flags = rustix::fs::OFlags::DIRECTORY;
            let directory =
                rustix::fs::open(directory.path(), flags, rustix::fs::Mode::empty()).unwrap();
            let control = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
            let mut engine = build(choice, control.as_fd()).unwrap();
            let mut writers = Vec::new();
            for stream in (0..streams).map(StreamId) {
                let name = format!("fifo{}", stream.0);
                make_fifo(directory.as_fd(), &name).unwrap();
                let open = || open_fifo(directory.as_fd(), &name, Waiting::NonBlocking).unwrap();
                engine.attach(stream, open()).unwrap();
                writers.push((stream, open()));
            }
            Some(Self {
                engine,
                sink: Collected::default(),
                control,
                writers,
            })
        }

        fn turn(&mut self) {
            self.engine.turn(PATIENCE, &mut self.sink).unwrap();
        }
    }

    const BOTH: [EngineChoice; 2] = [EngineChoice::Ring, EngineChoice::Epoll];

    #[test]
    fn everything_is_delivered_in_order_and_nothing_after_detach() {
        for choice in BOTH {
            let Some(mut bench) = Bench::new(choice, 100) else {
                continue;
            };
            // More at once than a read buffer holds.
            for round in 0..5_u8 {
                for (_, writer) in &bench.writers {
                    rustix::io::write(writer, &[round; 6000]).unwrap();
                }
                let wanted = 6000 * (usize::from(round) + 1);
                while bench.sink.bytes.len() < 100
                    || bench.sink.bytes.values().any(|bytes| bytes.len() < wanted)
                {
                    bench.turn();
                }
            }
            let expected: Vec<u8> = (0..5_u8).flat_map(|round| [round; 6000]).collect();
            assert!(bench.sink.bytes.values().all(|bytes| *bytes == expected));
            rustix::io::write(&bench.control, &1_u64.to_ne_bytes()).unwrap();
            while bench.sink.control == 0 {
                bench.turn();
            }
            rustix::io::read(&bench.control, &mut [0; 8]).unwrap();
            for (stream, _) in &bench.writers {
                bench.engine.detach(*stream);
            }
            while bench.sink.detached.len() < 100 {
                bench.turn();
            }
        }
    }

    #[test]
    fn streams_that_are_always_full_are_all_served_in_every_turn() {
        const STREAMS: u64 = 8;
        const TURNS: usize = 50;
        for choice in BOTH {
            let Some(mut bench) = Bench::new(choice, STREAMS) else {
                continue;
            };
            for _ in 0..TURNS {
                for (_, writer) in &bench.writers {
                    while rustix::io::write(writer, &[b'x'; 4096]).is_ok() {}
                }
                bench.turn();
            }
            assert_eq!(bench.sink.bytes.len() as u64, STREAMS, "{choice:?}");
            let least = bench.sink.bytes.values().map(Vec::len).min();
            // A pipe may have fewer pages where its user has too many of them (pipe(7)).
            let pipe = rustix::pipe::fcntl_getpipe_size(&bench.writers[0].1).unwrap();
            let wanted = TURNS * pipe.min(READ_BUFFER_BYTES);
            assert!(least >= Some(wanted), "{choice:?}: {least:?} of {wanted}");
        }
    }
}
