//! How streams end: the rest is read, the log told what it lacks, and every name removed, unless
//! the stream is wanted again.

use super::dropped::{DROPPED_SUFFIX, DropRecord};
use super::engine::{Engine, READ_BUFFER_BYTES};
use super::log::Log;
use super::streams::{Ending, Stream, Streams};
use crate::durable;
use crate::io::{RETIRED_SUFFIX, SPEC_SUFFIX, StreamSpec, Waiting, open_fifo, with_lock};
use crate::report::tell;
use rustix::fs::{self, AtFlags};
use rustix::io::{self, Errno};
use std::os::fd::{AsFd, OwnedFd};

/// What one FIFO may still hold when its stream ends (the largest pipe), and then some, should a
/// writer be left.
const DRAIN_BYTES_MAX: usize = 4 * 1024 * 1024;

impl Streams {
    pub(super) fn retire(&mut self, name: &str, engine: &mut dyn Engine) {
        self.waiting.remove(name);
        // Open until the end of this function: it may be what keeps the bytes in the pipe.
        let _held = self.held.remove(name);
        if let Some(id) = self.names.get(name) {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.ending = Ending::Yes;
                engine.detach(*id);
            }
            return;
        }
        self.retire_unread(name, engine);
    }

    /// Retired while no pump was there, or before this one looked, or its log could not tell yet
    /// what it lacks.
    pub(super) fn retire_unread(&mut self, name: &str, engine: &mut dyn Engine) {
        let directory = self.directory.as_fd();
        let bytes = durable::read(directory, &format!("{name}{RETIRED_SUFFIX}"));
        let fifo = open_fifo(directory, name, Waiting::NonBlocking);
        let mut told = Told::Yes;
        if let (Ok(bytes), Ok(fifo)) = (bytes, fifo)
            && let Ok(spec) = StreamSpec::decode(&bytes)
            && let Ok(mut log) = Log::open(&spec, DropRecord::new(&self.directory, name))
        {
            told = drain(&fifo, &mut log);
        }
        self.let_go(name, told, engine);
    }

    /// What pump has of a retired stream goes, unless something is left to tell; then it is looked
    /// at again. Where it is wanted again, that is the next stream's to tell.
    fn let_go(&mut self, name: &str, told: Told, engine: &mut dyn Engine) {
        let done = (told == Told::Yes || self.is_wanted(name)) && self.remove_names(name);
        if !done {
            self.unfinished.insert(name.to_owned());
            return;
        }
        self.follow(name.to_owned(), engine);
    }

    pub(super) fn finish(&mut self, mut stream: Stream, fifo: &OwnedFd, engine: &mut dyn Engine) {
        let told = drain(fifo, &mut stream.log);
        self.names.remove(&stream.name);
        if stream.ending == Ending::Yes {
            self.let_go(&stream.name, told, engine);
        } else {
            tell!(
                "pump: {}: its FIFO failed and is not read any more",
                stream.name
            );
        }
    }

    /// Removes what a retired stream left, except where it is wanted again. Answers whether that
    /// was possible: noded may just be making the next one.
    fn remove_names(&self, name: &str) -> bool {
        let removed = with_lock(self.directory.as_fd(), || {
            if !self.is_wanted(name) {
                self.remove(name);
                self.remove(&format!("{name}{DROPPED_SUFFIX}"));
            }
            self.remove(&format!("{name}{RETIRED_SUFFIX}"));
        });
        removed.is_some()
    }

    fn is_wanted(&self, name: &str) -> bool {
        let spec = format!("{name}{SPEC_SUFFIX}");
        fs::statat(&*self.directory, spec, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn remove(&self, name: &str) {
        match fs::unlinkat(&*self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => tell!("pump: {name} cannot be removed: {errno}"),
        }
    }
}

/// Whether a log says of all bytes that it lacks that it lacks them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Yes,
    No,
}

/// Moves what the pipe still holds to the log, and with it the last note about dropped bytes.
fn drain(fifo: &OwnedFd, log: &mut Log) -> Told {
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    let mut drained = 0;
    while drained < DRAIN_BYTES_MAX {
        match io::read(fifo, &mut buffer) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(count) => {
                log.append(&buffer[..count]);
                drained += count;
            }
            Err(Errno::INTR) => {}
            Err(errno) => {
                tell!("pump: the rest of a FIFO cannot be read: {errno}");
                break;
            }
        }
    }
    log.tell_dropped();
    if log.has_dropped() {
        Told::No
    } else {
        Told::Yes
    }
}
