//! Bytes that the disk refused: counted, and told in the log itself as soon as it takes them.

use super::Log;
use crate::pump::dropped::{Dropped, Place};
use crate::pump::rotation::LineState;
use crate::report::tell;
use rustix::{fs, io};

impl Log {
    /// Tries to write the note about dropped bytes; afterwards nothing is dropped any more, or the
    /// attempt failed.
    pub(crate) fn tell_dropped(&mut self) {
        let Some(dropped) = self.dropped else { return };
        if dropped.bytes == 0 {
            self.dropped = None;
            return;
        }
        if self.ensure_open().is_err() {
            return;
        }
        let begin = match self.rotation.line() {
            LineState::Within => "\n",
            LineState::AtStart => "",
        };
        let note = format!("{begin}{}", dropped.note());
        let Some(file) = &self.file else { return };
        match io::write(file, note.as_bytes()) {
            Ok(count) if count == note.len() => {
                self.rotation.on_written(note.as_bytes());
                self.dropped = None;
                self.record.remove();
            }
            Ok(_) => {
                // Half a note is no note. Where even this fails, the size is read again when the
                // file is next opened.
                let _ = fs::ftruncate(file, self.rotation.size_bytes());
                self.file = None;
            }
            Err(_) => {}
        }
    }

    /// Counts, in memory and beside it.
    pub(super) fn drop_bytes(&mut self, bytes: usize) {
        let Some(dropped) = &mut self.dropped else {
            return;
        };
        if bytes == 0 {
            return;
        }
        let is_first = dropped.bytes == 0;
        dropped.bytes += bytes as u64;
        if let Err(errno) = self.record.store(dropped)
            && is_first
        {
            tell!(
                "pump: {}: what it drops is counted in memory only: {errno}",
                self.prefix
            );
        }
    }

    /// An earlier pump may have told what it dropped and been killed before it could say so.
    pub(super) fn settle_earlier(&mut self) {
        let Some(dropped) = self.dropped else { return };
        if self.ensure_open().is_ok() && self.place() > dropped.since && self.ends_with(&dropped) {
            self.dropped = None;
            self.record.remove();
        }
        self.close_file();
    }

    fn ends_with(&self, dropped: &Dropped) -> bool {
        let note = dropped.note();
        let mut end = vec![0; note.len()];
        let offset = self.rotation.size_bytes().checked_sub(note.len() as u64);
        match (&self.file, offset) {
            (Some(file), Some(offset)) => {
                io::pread(file, &mut end[..], offset) == Ok(note.len()) && end == note.as_bytes()
            }
            _ => false,
        }
    }

    pub(super) fn place(&self) -> Place {
        Place {
            file: self.rotation.index(),
            size_bytes: self.rotation.size_bytes(),
        }
    }
}
