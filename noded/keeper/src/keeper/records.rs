//! One small file per run on the runtime tmpfs, for the keeper that comes after a crash of this
//! one.
//!
//! ```text
//!   Starting      before the clone
//!   Running       pid, start time, kill deadline
//!   Ending        the main process's status; others are left, and until when they are waited for
//!   Ended         the outcome
//!   Acknowledged  only the run epoch
//! ```
//!
//! The order is what makes it safe: a process never exists without a record, and an outcome is on
//! record before anybody is told.
//!
//! A lease has a file of its own, `lease:<alloc>`. That it is there says that the allocation must
//! not run without one, even where its content is damaged.

use super::custody::{Ending, Outcome, Phase, Running};
use super::formats::RECORD_VERSION;
use crate::durable;
use crate::io::SpecError;
use crate::protocol::{BootNanos, Lease, TaskKey, is_alloc_id};
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};

/// Written first, then renamed; the name of a run always has a dot after its first character, so it
/// can never be this.
const TEMPORARY: &str = "new";

/// Begins the name of a lease's file; the colon cannot be in the name of a run before its first
/// dot.
const LEASE_PREFIX: &str = "lease:";

/// More files than runs, floors and leases together are not ours.
const RECORDS_MAX: usize =
    super::custody::RUNS_MAX + super::custody::FLOORS_MAX + super::custody::LEASES_MAX;

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
    Ending(Ending),
}

impl RecordState {
    pub(crate) fn of(phase: &Phase) -> Self {
        match phase {
            Phase::Starting { .. } | Phase::Failing { .. } => Self::Starting,
            Phase::Running(running) => Self::Running(*running),
            Phase::Ending(ending) => Self::Ending(ending.clone()),
            Phase::Ended(outcome) => Self::Ended(outcome.clone()),
        }
    }
}

/// A file that is no record. What runs under it is found by its cgroup.
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

/// What the keeper before left.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) records: Vec<Record>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) errors: Vec<RecordError>,
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

    pub(crate) fn write_lease(&self, lease: &Lease) -> Result<(), Errno> {
        let bytes = crate::io::seal(RECORD_VERSION, lease).map_err(|_| Errno::MSGSIZE)?;
        let name = lease_file_name(&lease.alloc);
        durable::replace(self.directory.as_fd(), TEMPORARY, &name, &bytes)
    }

    pub(crate) fn remove_lease(&self, alloc: &str) -> Result<(), Errno> {
        match fs::unlinkat(&self.directory, lease_file_name(alloc), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// All records of the keeper before, and what could not be read.
    pub(crate) fn read_all(&self) -> Result<Found, Errno> {
        let mut found = Found::default();
        for entry in fs::Dir::read_from(&self.directory)?.take(RECORDS_MAX) {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || name == TEMPORARY {
                continue;
            }
            match name.strip_prefix(LEASE_PREFIX) {
                Some(alloc) if is_alloc_id(alloc) => {
                    let lease = self.read::<Lease>(&name);
                    found.add_lease(alloc.to_owned(), lease);
                }
                _ => match self.read(&name) {
                    Ok(record) => found.records.push(record),
                    Err(error) => found.errors.push(error),
                },
            }
        }
        Ok(found)
    }

    fn read<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, RecordError> {
        let name = name.to_owned();
        match durable::read(self.directory.as_fd(), &name) {
            Ok(bytes) => decode(&bytes).map_err(|source| RecordError::Decode { name, source }),
            Err(source) => Err(RecordError::Read { name, source }),
        }
    }
}

impl Found {
    /// A lease that does not say until when has run out: nobody knows that it has not.
    fn add_lease(&mut self, alloc: String, read: Result<Lease, RecordError>) {
        let until = match read {
            Ok(lease) if lease.alloc == alloc => lease.until,
            Ok(_) => BootNanos(0),
            Err(error) => {
                self.errors.push(error);
                BootNanos(0)
            }
        };
        self.leases.push(Lease { alloc, until });
    }
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, SpecError> {
    crate::io::unseal(RECORD_VERSION, bytes)
}

fn file_name(key: &TaskKey) -> String {
    format!("{}.{}.{}", key.alloc(), key.task(), key.run_epoch())
}

fn lease_file_name(alloc: &str) -> String {
    format!("{LEASE_PREFIX}{alloc}")
}
