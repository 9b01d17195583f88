//! All streams of the host: which FIFO feeds which log, and what is left to do for each.
//!
//! ```text
//!   .spec seen         log opened          .retired seen        the FIFO is back
//!  -----------> waiting --------> reading --------------> ending --------------> gone
//!                |  ^ each tick      ^                      |  |                    ^
//!                +--+                +----------------------+  +---> unfinished -----+
//!                                      a new .spec is there    |  ^ each    the log has
//!                                                              +--+ tick    its note
//! ```
//!
//! A stream whose log could not tell what it lacks stays retired, and is tried again, until it can
//! or its log directory is gone; and one whose names could not be removed, until they can.

use super::directory::Change;
use super::dropped::DropRecord;
use super::engine::{Engine, Sink, StreamId};
use super::log::{Log, Opened};
use crate::durable;
use crate::io::{SPEC_SUFFIX, StreamSpec, Waiting, make_fifo, open_fifo};
use crate::report::tell;
use protocol_error_chain::chain;
use rustix::io::{self, Errno};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Log files that are open at once; the rest of the descriptors is for FIFOs.
const OPEN_FILES_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) name: String,
    pub(super) log: Log,
    pub(super) ending: Ending,
    /// In the queue of open files.
    listed: Listed,
    /// Written to since the last sweep.
    used: Used,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    Yes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    No,
    Yes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Used {
    No,
    Yes,
}

/// Why a stream cannot be read yet.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error("the specification cannot be read")]
    Read(#[source] Errno),
    #[error("the specification cannot be used")]
    Spec(#[source] crate::io::SpecError),
    #[error("the FIFO cannot be opened")]
    Fifo(#[source] Errno),
    #[error("the log cannot be opened")]
    Log(#[source] super::log::LogError),
    #[error("the engine does not take the FIFO")]
    Attach(#[source] Errno),
}

/// The tables behind the engine.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(super) directory: Rc<OwnedFd>,
    next: StreamId,
    pub(super) streams: BTreeMap<StreamId, Stream>,
    pub(super) names: BTreeMap<String, StreamId>,
    /// Specifications that could not be followed yet, with the words of the last error.
    pub(super) waiting: BTreeMap<String, String>,
    /// FIFOs of waiting streams, held so that no writer gets SIGPIPE or waits to open.
    pub(super) held: BTreeMap<String, OwnedFd>,
    dropping: BTreeSet<StreamId>,
    /// Retired, and not gone: their logs lack the last note about dropped bytes, or the io
    /// directory was locked.
    pub(super) unfinished: BTreeSet<String>,
    open_files: VecDeque<StreamId>,
    failed: Vec<StreamId>,
    freed: Vec<(Stream, OwnedFd)>,
    control_ready: bool,
}

impl Streams {
    pub(crate) fn new(directory: OwnedFd) -> Self {
        Self {
            directory: Rc::new(directory),
            next: StreamId(0),
            streams: BTreeMap::new(),
            names: BTreeMap::new(),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            dropping: BTreeSet::new(),
            unfinished: BTreeSet::new(),
            open_files: VecDeque::new(),
            failed: Vec::new(),
            freed: Vec::new(),
            control_ready: false,
        }
    }

    pub(crate) fn apply(&mut self, changes: BTreeSet<Change>, engine: &mut dyn Engine) {
        for change in changes {
            match change {
                Change::Spec(name) => self.follow(name, engine),
                Change::Retired(name) => self.retire(&name, engine),
            }
        }
    }

    /// Does what the last turn left to do.
    pub(crate) fn after_turn(&mut self, engine: &mut dyn Engine) {
        for stream in std::mem::take(&mut self.failed) {
            engine.detach(stream);
        }
        for (stream, fifo) in std::mem::take(&mut self.freed) {
            self.finish(stream, &fifo, engine);
        }
    }

    /// Tries again what failed: waiting streams, and notes about dropped bytes.
    pub(crate) fn tick(&mut self, engine: &mut dyn Engine) {
        for name in self.waiting.keys().cloned().collect::<Vec<_>>() {
            self.follow(name, engine);
        }
        for name in std::mem::take(&mut self.unfinished) {
            self.retire_unread(&name, engine);
        }
        let streams = &mut self.streams;
        self.dropping.retain(|id| {
            let Some(stream) = streams.get_mut(id) else {
                return false;
            };
            stream.log.tell_dropped();
            if stream.listed == Listed::No {
                stream.log.close_file();
            }
            stream.log.has_dropped()
        });
    }

    /// Closes the log files that nobody wrote to since the last sweep.
    pub(crate) fn sweep(&mut self) {
        let streams = &mut self.streams;
        self.open_files.retain(|id| {
            let Some(stream) = streams.get_mut(id) else {
                return false;
            };
            let used = std::mem::replace(&mut stream.used, Used::No);
            if used == Used::No {
                stream.log.close_file();
                stream.listed = Listed::No;
            }
            used == Used::Yes
        });
    }

    pub(crate) fn take_control_ready(&mut self) -> bool {
        std::mem::take(&mut self.control_ready)
    }

    pub(crate) fn wants_tick(&self) -> bool {
        !(self.waiting.is_empty() && self.dropping.is_empty() && self.unfinished.is_empty())
    }

    pub(crate) fn wants_sweep(&self) -> bool {
        !self.open_files.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn follow(&mut self, name: String, engine: &mut dyn Engine) {
        match self.try_follow(&name, engine) {
            Ok(()) => {
                self.waiting.remove(&name);
            }
            Err(StreamError::Read(Errno::NOENT)) => {
                self.waiting.remove(&name);
                self.held.remove(&name);
            }
            Err(error) => {
                let words = chain(&error);
                if self.waiting.get(&name) != Some(&words) {
                    tell!("pump: {name}: {words}; tried again every second");
                }
                self.waiting.insert(name, words);
            }
        }
    }

    fn try_follow(&mut self, name: &str, engine: &mut dyn Engine) -> Result<(), StreamError> {
        let bytes = durable::read(self.directory.as_fd(), &format!("{name}{SPEC_SUFFIX}"))
            .map_err(StreamError::Read)?;
        if let Some(stream) = self.names.get(name).and_then(|id| self.streams.get_mut(id)) {
            let spec = StreamSpec::decode(&bytes).map_err(StreamError::Spec)?;
            if stream.ending == Ending::No {
                stream.log.set_limits(spec.limits);
            }
            // An ending stream looks for a new specification when its FIFO comes back.
            return Ok(());
        }
        let fifo = match self.held.remove(name) {
            Some(fifo) => fifo,
            None => self.open(name).map_err(StreamError::Fifo)?,
        };
        match self.begin(name, &bytes, engine, fifo.as_fd()) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.held.insert(name.to_owned(), fifo);
                Err(error)
            }
        }
    }

    fn begin(
        &mut self,
        name: &str,
        spec: &[u8],
        engine: &mut dyn Engine,
        fifo: BorrowedFd<'_>,
    ) -> Result<(), StreamError> {
        let spec = StreamSpec::decode(spec).map_err(StreamError::Spec)?;
        let record = DropRecord::new(&self.directory, name);
        let log = Log::open(&spec, record).map_err(StreamError::Log)?;
        let fifo = io::fcntl_dupfd_cloexec(fifo, 3).map_err(StreamError::Fifo)?;
        let id = self.next;
        engine.attach(id, fifo).map_err(StreamError::Attach)?;
        self.next = StreamId(id.0 + 1);
        self.names.insert(name.to_owned(), id);
        // Its log is this stream's now, and so is what is to be told.
        self.unfinished.remove(name);
        if log.has_dropped() {
            self.dropping.insert(id);
        }
        let name = name.to_owned();
        let stream = Stream {
            name,
            log,
            ending: Ending::No,
            listed: Listed::No,
            used: Used::No,
        };
        self.streams.insert(id, stream);
        Ok(())
    }

    fn open(&self, name: &str) -> Result<OwnedFd, Errno> {
        make_fifo(self.directory.as_fd(), name)?;
        open_fifo(self.directory.as_fd(), name, Waiting::NonBlocking)
    }

    fn list_open(&mut self, id: StreamId) {
        self.open_files.push_back(id);
        if self.open_files.len() > OPEN_FILES_MAX
            && let Some(oldest) = self.open_files.pop_front()
            && let Some(stream) = self.streams.get_mut(&oldest)
        {
            stream.log.close_file();
            stream.listed = Listed::No;
        }
    }
}

impl Sink for Streams {
    fn on_data(&mut self, id: StreamId, bytes: &[u8]) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let opened = stream.log.append(bytes);
        stream.used = Used::Yes;
        if stream.log.has_dropped() {
            self.dropping.insert(id);
        }
        if opened == Opened::Yes && stream.listed == Listed::No {
            stream.listed = Listed::Yes;
            self.list_open(id);
        }
    }

    fn on_detached(&mut self, id: StreamId, fifo: OwnedFd) {
        if let Some(stream) = self.streams.remove(&id) {
            self.dropping.remove(&id);
            self.freed.push((stream, fifo));
        }
    }

    fn on_failed(&mut self, id: StreamId, errno: Errno) {
        if let Some(stream) = self.streams.get(&id) {
            tell!("pump: {}: reading its FIFO failed: {errno}", stream.name);
        }
        self.failed.push(id);
    }

    fn on_control(&mut self) {
        self.control_ready = true;
    }
}
