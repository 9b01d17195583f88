//! What a child says when it cannot become the task: eight bytes on the report pipe.
//!
//! ```text
//! child born ── steps ──> execve: the pipe closes by itself      -> Report::Running
//!                 │
//!                 └── a step fails: [step: u32 LE][errno: i32 LE] -> Report::Failed
//! ```

use std::os::fd::AsFd;

use rustix::io::Errno;

/// Length of a failure on the pipe; written at once, so never torn (PIPE_BUF).
pub(crate) const FAILURE_BYTES: usize = 8;

/// Which step failed and what the kernel said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildFailure {
    /// Offset in [`crate::Plan::steps`]; one past the last is the execution itself.
    pub step: u32,
    /// The error number.
    pub errno: i32,
}

/// What the report pipe says now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// Nothing yet: the child is still at its steps.
    Pending,
    /// The program runs, or the child died without a word; its pidfd tells which.
    Running,
    /// A step failed; the child has left or is about to.
    Failed(ChildFailure),
}

/// The report pipe broke its promise.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The pipe could not be read.
    #[error("cannot read the report of a starting task")]
    Read(#[source] Errno),
    /// Bytes that are no failure.
    #[error("the report of a starting task has {bytes} bytes, not {FAILURE_BYTES}")]
    Torn {
        /// How many came.
        bytes: usize,
    },
}

impl ChildFailure {
    pub(crate) const fn encode(self) -> [u8; FAILURE_BYTES] {
        let step = self.step.to_le_bytes();
        let errno = self.errno.to_le_bytes();
        [
            step[0], step[1], step[2], step[3], errno[0], errno[1], errno[2], errno[3],
        ]
    }

    const fn decode(bytes: [u8; FAILURE_BYTES]) -> Self {
        let [s0, s1, s2, s3, e0, e1, e2, e3] = bytes;
        Self {
            step: u32::from_le_bytes([s0, s1, s2, s3]),
            errno: i32::from_le_bytes([e0, e1, e2, e3]),
        }
    }
}

/// Reads the report pipe of a [`crate::Spawned`] once, without blocking.
///
/// # Errors
/// The pipe cannot be read or holds something else than a failure.
pub fn read_report(report: impl AsFd) -> Result<Report, ReportError> {
    let mut bytes = [0; FAILURE_BYTES];
    match rustix::io::retry_on_intr(|| rustix::io::read(&report, &mut bytes)) {
        Ok(0) => Ok(Report::Running),
        Ok(FAILURE_BYTES) => Ok(Report::Failed(ChildFailure::decode(bytes))),
        Ok(short) => Err(ReportError::Torn { bytes: short }),
        Err(Errno::AGAIN) => Ok(Report::Pending),
        Err(errno) => Err(ReportError::Read(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipe_says_pending_then_failed_then_running() {
        use rustix::pipe::{PipeFlags, pipe_with};
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).expect("pipe");
        assert_eq!(read_report(&read).expect("empty pipe"), Report::Pending);
        let failure = ChildFailure { step: 7, errno: 2 };
        rustix::io::write(&write, &failure.encode()).expect("write");
        assert_eq!(
            read_report(&read).expect("failure"),
            Report::Failed(failure)
        );
        drop(write);
        assert_eq!(read_report(&read).expect("end of file"), Report::Running);
    }

    #[test]
    fn a_torn_report_is_an_error() {
        use rustix::pipe::{PipeFlags, pipe_with};
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).expect("pipe");
        rustix::io::write(&write, &[1, 2, 3]).expect("write");
        assert!(matches!(
            read_report(&read),
            Err(ReportError::Torn { bytes: 3 })
        ));
    }

    #[test]
    fn the_bytes_of_a_failure_are_frozen() {
        let failure = ChildFailure {
            step: 0x0102,
            errno: 13,
        };
        assert_eq!(failure.encode(), [2, 1, 0, 0, 13, 0, 0, 0]);
        assert_eq!(ChildFailure::decode(failure.encode()), failure);
    }
}
