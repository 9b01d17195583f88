//! One small file per run on the runtime tmpfs, for the keeper that comes after a crash of this
//! one.
//!
//! ```text
//!   Starting      before the clone
//!   Running       pid, start time, kill deadline
//!   Ended         the outcome
//!   Acknowledged  only the run epoch
//! ```
//!
//! The order is what makes it safe: a process never exists without a record, and an outcome is on
//! record before anybody is told.

use super::custody::{Outcome, Running};
use crate::durable;
use crate::io::SpecError;
use crate::protocol::TaskKey;
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};

const RECORD_VERSION: u8 = 1;

/// Written first, then renamed; the name of a run always has a dot after its first character, so it
/// can never be this.
const TEMPORARY: &str = "new";

/// More files than runs and floors together are not ours.
const RECORDS_MAX: usize = super::custody::RUNS_MAX + super::custody::FLOORS_MAX;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) key: TaskKey,
    pub(crate) cgroup: String,
    pub(crate) fifos: Vec<String>,
    pub(crate) state: RecordState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RecordState {
    Starting,
    Running(Running),
    Ended(Outcome),
    Acknowledged,
}

/// A file that is no record; it is left where it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("record {name} cannot be read")]
    Read {
        name: String,
        #[source]
        source: Errno,
    },
    #[error("record {name} cannot be decoded")]
    Decode {
        name: String,
        #[source]
        source: SpecError,
    },
}

#[derive(Debug)]
pub(crate) struct Records {
    directory: OwnedFd,
}

impl Records {
    pub(crate) fn new(directory: OwnedFd) -> Self {
        Self { directory }
    }

    pub(crate) fn write(&self, record: &Record) -> Result<(), Errno> {
        let bytes = crate::io::seal(RECORD_VERSION, record).map_err(|_| Errno::MSGSIZE)?;
        durable::replace(
            self.directory.as_fd(),
            TEMPORARY,
            &file_name(&record.key),
            &bytes,
        )
    }

    pub(crate) fn remove(&self, key: &TaskKey) -> Result<(), Errno> {
        match fs::unlinkat(&self.directory, file_name(key), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// All records of the keeper before, and what could not be read.
    pub(crate) fn read_all(&self) -> Result<(Vec<Record>, Vec<RecordError>), Errno> {
        let (mut records, mut errors) = (Vec::new(), Vec::new());
        for entry in fs::Dir::read_from(&self.directory)?.take(RECORDS_MAX) {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || name == TEMPORARY {
                continue;
            }
            match self.read(name) {
                Ok(record) => records.push(record),
                Err(error) => errors.push(error),
            }
        }
        Ok((records, errors))
    }

    fn read(&self, name: String) -> Result<Record, RecordError> {
        match durable::read(self.directory.as_fd(), &name) {
            Ok(bytes) => crate::io::unseal(RECORD_VERSION, &bytes)
                .map_err(|source| RecordError::Decode { name, source }),
            Err(source) => Err(RecordError::Read { name, source }),
        }
    }
}

fn file_name(key: &TaskKey) -> String {
    format!("{}.{}.{}", key.alloc(), key.task(), key.run_epoch())
}
