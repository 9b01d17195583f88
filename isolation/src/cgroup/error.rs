//! What can go wrong below the hierarchy.

use std::path::PathBuf;

use rustix::io::Errno;

/// An operation on a cgroup that failed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A directory could not be made.
    #[error("cannot make cgroup {path:?}")]
    Create {
        /// Below the mount.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// A directory could not be opened.
    #[error("cannot open cgroup {path:?}")]
    Open {
        /// Below the mount.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// A cgroup for a new run still holds an earlier one.
    #[error("cgroup {path:?} still has processes of an earlier run")]
    Occupied {
        /// Below the mount.
        path: PathBuf,
    },
    /// A directory could not be removed because processes live in it.
    #[error("cgroup {path:?} still has processes: {processes}")]
    Populated {
        /// Below the mount.
        path: PathBuf,
        /// Their numbers and names.
        processes: String,
    },
    /// A directory could not be removed.
    #[error("cannot remove cgroup {path:?}")]
    Remove {
        /// Below the mount.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// A file could not be read.
    #[error("cannot read {file} of cgroup {path:?}")]
    Read {
        /// Below the mount.
        path: PathBuf,
        /// The file's name.
        file: &'static str,
        /// Why.
        #[source]
        source: Errno,
    },
    /// A file could not be written.
    #[error("cannot write {value:?} to {file} of cgroup {path:?}")]
    Write {
        /// Below the mount.
        path: PathBuf,
        /// The file's name.
        file: &'static str,
        /// What was written.
        value: String,
        /// Why.
        #[source]
        source: Errno,
    },
    /// A limit could not be set although its controller is there.
    #[error("cannot set {limit} of cgroup {path:?}")]
    Limit {
        /// Below the mount.
        path: PathBuf,
        /// Name of the limit's file.
        limit: &'static str,
        /// Why.
        #[source]
        source: cgroups_rs::fs::error::Error,
    },
    /// A file held something else than its documentation says.
    #[error("cannot understand {file} of cgroup {path:?}: {content:?}")]
    Content {
        /// Below the mount.
        path: PathBuf,
        /// The file's name.
        file: &'static str,
        /// Its first line.
        content: String,
    },
    /// A name that cannot be one directory.
    #[error("{name:?} is no name for a cgroup")]
    Name {
        /// The name.
        name: String,
    },
    /// The base is no plain path below the mount.
    #[error("{path:?} is no plain path below the cgroup mount")]
    Base {
        /// The path.
        path: PathBuf,
    },
    /// There is no cgroup v2.
    #[error("no cgroup v2")]
    Mount(#[source] super::MountError),
}
