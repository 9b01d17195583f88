//! The contract of noded and pump: a directory of FIFOs and stream specifications.
//!
//! ```text
//!   noded                                    pump
//!   write NAME.spec (rename into place) --->  make or open FIFO NAME, read it, write log files
//!   make FIFO NAME (whoever is first)
//!   rename NAME.spec to NAME.retired    --->  read the rest, remove FIFO NAME and NAME.retired
//!                                       --->  NAME.dropped while bytes lack that no log tells of
//! ```
//!
//! A stream whose log cannot be told what it lacks (its disk is full) stays retired until it can,
//! or its log directory is gone.
//!
//! Making a specification with its FIFO, and removing a FIFO that no specification wants, are done
//! under a lock of the directory (flock(2), which ends with its process): otherwise pump might
//! remove what a task that starts again has just been given.
//!
//! A specification names the run that it was made for. Streams have the name of the task, so that
//! the output of one run follows that of the other in the same files; a run that is let go retires
//! its own, and never what a later one was given.
//!
//! Nothing in it is lost when pump is away: a new pump finds specifications and retirements in its
//! first scan.

mod fifo;
mod lock;
mod spec;

use crate::paths::RuntimePaths;
use crate::protocol::{AllocAndTask, StdioSource, TaskKey};
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

pub(crate) use fifo::{Waiting, make_fifo, open_fifo};
use lock::lock_patiently;
pub(crate) use lock::with_lock;
pub use spec::{LogLimits, SpecError, StreamSpec};
pub(crate) use spec::{seal, unseal};

/// Ends the name of a specification that is in force.
pub const SPEC_SUFFIX: &str = ".spec";
/// Ends the name of a specification whose stream is to be drained and removed.
pub const RETIRED_SUFFIX: &str = ".retired";

/// One of the two output streams of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    pub const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// As it appears in file names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    /// The name of the FIFO: `<alloc>.<task>.<stdout|stderr>`.
    #[must_use]
    pub fn fifo_name(self, owner: &AllocAndTask) -> String {
        format!("{}.{}.{}", owner.alloc(), owner.task(), self.as_str())
    }

    /// The log files' names without the number: `<task>.<stdout|stderr>`, as Nomad names them.
    #[must_use]
    pub fn file_prefix(self, owner: &AllocAndTask) -> String {
        format!("{}.{}", owner.task(), self.as_str())
    }
}

/// Why a task's streams could not be made or retired.
#[derive(Debug, thiserror::Error)]
pub enum StreamsError {
    #[error("the io directory {} is locked by another process", .path.display())]
    Locked {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("the io directory {} cannot be opened", .path.display())]
    Directory {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("specification {name} cannot be written")]
    Spec {
        name: String,
        #[source]
        source: Errno,
    },
    #[error("specification {name} cannot be encoded")]
    Encode {
        name: String,
        #[source]
        source: SpecError,
    },
    #[error("FIFO {name} cannot be made")]
    Fifo {
        name: String,
        #[source]
        source: Errno,
    },
    #[error("specification {name} cannot be retired")]
    Retire {
        name: String,
        #[source]
        source: Errno,
    },
}

/// The descriptors' sources for a spawn request, once [`create_streams`] succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStreams {
    pub stdout: StdioSource,
    pub stderr: StdioSource,
}

/// Tells pump to write the output of a run below `log_base`/`log_directory` and makes its FIFOs.
/// Repeating it is harmless; other limits replace the earlier ones.
///
/// `log_base` is trusted as a path; below it no symbolic link is followed, because the task may
/// write there.
///
/// Blocks for as long as pump removes a FIFO, at most a second.
///
/// # Errors
/// Where a file cannot be written; what was made before stays, and a repeat completes it.
pub fn create_streams(
    paths: &RuntimePaths,
    run: &TaskKey,
    log_base: &Path,
    log_directory: &Path,
    limits: LogLimits,
) -> Result<TaskStreams, StreamsError> {
    let owner = run.owner();
    let directory = open_io_directory(paths)?;
    // Shared: those who make streams are not in each other's way.
    let flock = FlockOperation::NonBlockingLockShared;
    lock_patiently(paths, directory.as_fd(), flock)?;
    for stream in OutputStream::BOTH {
        let name = stream.fifo_name(owner);
        let spec = StreamSpec {
            log_base: log_base.to_owned(),
            log_directory: log_directory.to_owned(),
            file_prefix: stream.file_prefix(owner),
            limits,
            run_epoch: run.run_epoch(),
        };
        write_spec(directory.as_fd(), &name, &spec)?;
        make_fifo(directory.as_fd(), &name)
            .map_err(|source| StreamsError::Fifo { name, source })?;
    }
    let fifo = |stream: OutputStream| StdioSource::Fifo {
        name: stream.fifo_name(owner),
    };
    Ok(TaskStreams {
        stdout: fifo(OutputStream::Stdout),
        stderr: fifo(OutputStream::Stderr),
    })
}

/// Tells pump that this run and earlier ones will write nothing more: it drains their streams and
/// removes them. What a later run was given stays. Repeating it is harmless.
///
/// Blocks for as long as others make streams, at most a second.
///
/// # Errors
/// As [`retire_streams`], and where the io directory stays locked.
pub fn retire_streams_of(paths: &RuntimePaths, run: &TaskKey) -> Result<(), StreamsError> {
    let directory = open_io_directory(paths)?;
    // Exclusive: between the look and the renaming nobody makes the next ones.
    let flock = FlockOperation::NonBlockingLockExclusive;
    lock_patiently(paths, directory.as_fd(), flock)?;
    retire(directory.as_fd(), run.owner(), |spec| {
        spec.run_epoch <= run.run_epoch()
    })
}

/// Tells pump that no run of this task will write anything more.
///
/// # Errors
/// Where a specification cannot be renamed; the other stream is retired all the same.
pub fn retire_streams(paths: &RuntimePaths, owner: &AllocAndTask) -> Result<(), StreamsError> {
    let directory = open_io_directory(paths)?;
    retire(directory.as_fd(), owner, |_| true)
}

/// Retires those streams of a task whose specification is `over`. One that cannot be read is of no
/// use to anybody.
fn retire(
    directory: BorrowedFd<'_>,
    owner: &AllocAndTask,
    over: impl Fn(&StreamSpec) -> bool,
) -> Result<(), StreamsError> {
    let mut outcome = Ok(());
    for stream in OutputStream::BOTH {
        let name = stream.fifo_name(owner);
        let (from, to) = (
            format!("{name}{SPEC_SUFFIX}"),
            format!("{name}{RETIRED_SUFFIX}"),
        );
        let spec = crate::durable::read(directory, &from);
        let spec = spec.ok().and_then(|bytes| StreamSpec::decode(&bytes).ok());
        if spec.is_some_and(|spec| !over(&spec)) {
            continue;
        }
        match fs::renameat(directory, &from, directory, &to) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(source) => outcome = Err(StreamsError::Retire { name, source }),
        }
    }
    outcome
}

/// Whether pump has finished with both streams: all output is in the log files.
///
/// # Errors
/// Where the io directory cannot be read.
pub fn streams_are_gone(paths: &RuntimePaths, owner: &AllocAndTask) -> Result<bool, StreamsError> {
    let directory = open_io_directory(paths)?;
    let remains = OutputStream::BOTH.iter().any(|stream| {
        let name = stream.fifo_name(owner);
        [SPEC_SUFFIX, RETIRED_SUFFIX].iter().any(|suffix| {
            let file = format!("{name}{suffix}");
            !matches!(
                fs::statat(&directory, file, AtFlags::SYMLINK_NOFOLLOW),
                Err(Errno::NOENT)
            )
        })
    });
    Ok(!remains)
}

fn open_io_directory(paths: &RuntimePaths) -> Result<OwnedFd, StreamsError> {
    let path = paths.io_directory();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::open(&path, flags, Mode::empty()).map_err(|source| StreamsError::Directory { path, source })
}

fn write_spec(
    directory: BorrowedFd<'_>,
    name: &str,
    spec: &StreamSpec,
) -> Result<(), StreamsError> {
    let bytes = spec.encode().map_err(|source| StreamsError::Encode {
        name: name.to_owned(),
        source,
    })?;
    let failed = |source| StreamsError::Spec {
        name: name.to_owned(),
        source,
    };
    let (temporary, target) = (format!("{name}.new"), format!("{name}{SPEC_SUFFIX}"));
    crate::durable::replace(directory, &temporary, &target, &bytes).map_err(failed)
}
