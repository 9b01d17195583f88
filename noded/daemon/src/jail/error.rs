//! The reasons why a jail child has no answer.

use std::path::PathBuf;
use std::time::Duration;

use isolation::SpawnError;
use isolation::cgroup::CgroupError;
use noded_core::event::Recovery;
use noded_jail::frame::FrameError;

/// The jail cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum JailOpenError {
    /// The program.
    #[error("cannot open {}; install noded-jail beside noded, or name it as jail_binary", .path.display())]
    Program {
        /// Its path.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The program is no file that can be executed.
    #[error("{} is no executable file; install noded-jail there, or name it as jail_binary", .path.display())]
    NotExecutable {
        /// Its path.
        path: PathBuf,
    },
    /// The cgroup of the children.
    #[error("the cgroup of jail children")]
    Cgroup(#[source] CgroupError),
    /// The thread that starts children.
    #[error("the thread that starts jail children")]
    Thread(#[source] std::io::Error),
}

/// A piece of work without a result.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// The request is too large, or cannot be written.
    #[error("the request for noded-jail")]
    Request(#[source] FrameError),
    /// No pipe.
    #[error("cannot make a pipe for noded-jail")]
    Pipe(#[source] std::io::Error),
    /// No child.
    #[error("cannot start noded-jail")]
    Start(#[source] SpawnError),
    /// The child was born and did not become the program.
    #[error("cannot start noded-jail: {0}")]
    Execute(String),
    /// noded ends.
    #[error("noded shuts down")]
    ShuttingDown,
    /// The child could not begin.
    #[error("noded-jail: {0}")]
    Refused(String),
    /// The work cannot be done.
    #[error("{0}")]
    Failed(String),
    /// The answer is no frame of ours.
    #[error("the answer of noded-jail")]
    Answer(#[source] FrameError),
    /// The answer cannot be read.
    #[error("cannot read the answer of noded-jail")]
    Read(#[source] std::io::Error),
    /// More processor time than allowed.
    #[error("it takes more than {} s of processor time", .limit.as_secs())]
    ProcessorTime {
        /// The limit.
        limit: Duration,
    },
    /// More memory than allowed.
    #[error("it needs more than {} MiB of memory", .limit_bytes >> 20)]
    Memory {
        /// The limit.
        limit_bytes: usize,
    },
    /// The child died without an answer.
    #[error("noded-jail ended without an answer: {status}{}", wrote(.said))]
    Died {
        /// Exit status or signal.
        status: String,
        /// The end of its messages.
        said: String,
    },
    /// The deadline passed.
    #[error("not done within {} s", .deadline.as_secs())]
    Deadline {
        /// From the start of the child.
        deadline: Duration,
    },
    /// The caller gave up.
    #[error("cancelled")]
    Cancelled,
}

fn wrote(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("; it wrote: {text}")
    }
}

impl JailError {
    /// Whether the same work may succeed later: the fault is the host's, not the work's.
    #[must_use]
    pub const fn recovery(&self) -> Recovery {
        match self {
            Self::Request(_)
            | Self::Failed(_)
            | Self::ProcessorTime { .. }
            | Self::Memory { .. } => Recovery::Hopeless,
            Self::Pipe(_)
            | Self::Start(_)
            | Self::Execute(_)
            | Self::ShuttingDown
            | Self::Refused(_)
            | Self::Answer(_)
            | Self::Read(_)
            | Self::Died { .. }
            | Self::Deadline { .. } => Recovery::Possible,
            Self::Cancelled => Recovery::Cancelled,
        }
    }
}
