//! The twin of the ring: level-triggered epoll, one read per ready FIFO and turn, so that no stream
//! starves another.

use super::engine::{Engine, READ_BUFFER_BYTES, Sink, StreamId};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{self, Errno};
use rustix::time::Timespec;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

const EVENTS_MAX: usize = 256;
/// No stream has this number: they count up from 0.
const CONTROL: u64 = u64::MAX;

pub(crate) struct EpollEngine {
    epoll: OwnedFd,
    streams: BTreeMap<StreamId, OwnedFd>,
    detached: Vec<(StreamId, OwnedFd)>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

impl EpollEngine {
    pub(crate) fn new(control: BorrowedFd<'_>) -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, control, EventData::new_u64(CONTROL), EventFlags::IN)?;
        Ok(Self {
            epoll,
            streams: BTreeMap::new(),
            detached: Vec::new(),
            events: Vec::with_capacity(EVENTS_MAX),
            buffer: vec![0; READ_BUFFER_BYTES],
        })
    }

    fn read_one(&mut self, stream: StreamId, sink: &mut dyn Sink) {
        let Some(fifo) = self.streams.get(&stream) else {
            return;
        };
        match io::read(fifo, &mut self.buffer) {
            Ok(count) => sink.on_data(stream, &self.buffer[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => {
                // Without this, a level-triggered error would wake every turn.
                let _ = epoll::delete(&self.epoll, fifo);
                sink.on_failed(stream, errno);
            }
        }
    }
}

impl Engine for EpollEngine {
    fn name(&self) -> &'static str {
        "epoll"
    }

    fn attach(&mut self, stream: StreamId, fifo: OwnedFd) -> Result<(), Errno> {
        let data = EventData::new_u64(stream.0);
        epoll::add(&self.epoll, &fifo, data, EventFlags::IN)?;
        self.streams.insert(stream, fifo);
        Ok(())
    }

    fn detach(&mut self, stream: StreamId) {
        if let Some(fifo) = self.streams.remove(&stream) {
            // Gone already after a failed read; closing removes it in any case.
            let _ = epoll::delete(&self.epoll, fifo.as_fd());
            self.detached.push((stream, fifo));
        }
    }

    fn turn(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> Result<(), Errno> {
        let timeout = if self.detached.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        for (stream, fifo) in std::mem::take(&mut self.detached) {
            sink.on_detached(stream, fifo);
        }
        for position in 0..self.events.len() {
            match self.events[position].data.u64() {
                CONTROL => sink.on_control(),
                number => self.read_one(StreamId(number), sink),
            }
        }
        Ok(())
    }
}
