//! The frames of descriptor 1.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::frame;

/// The time between two lines of progress.
pub const PROGRESS_PAUSE: Duration = Duration::from_millis(250);

/// Bytes of a line of progress and of a failure; longer ones are cut.
const LINE_BYTES_MAX: usize = 4096;

/// One frame of a child: any number of `Progress`, then one of the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report<A> {
    /// The state of the work, one line.
    Progress(String),
    /// The result.
    Done(A),
    /// The work cannot be done: the reason, for people.
    Failed(String),
    /// The child did not begin: the request cannot be read, or the host cannot confine it.
    Refused(String),
}

/// Sends lines of progress, at most one per [`PROGRESS_PAUSE`].
#[derive(Debug, Default)]
pub struct Progress {
    last: Option<Instant>,
}

impl Progress {
    /// Sends the line unless the last one was sent less than [`PROGRESS_PAUSE`] ago. A noded that
    /// does not read any more shows as the hang-up of descriptor 0.
    pub fn send(&mut self, line: &str) {
        let is_early = self
            .last
            .is_some_and(|last| last.elapsed() < PROGRESS_PAUSE);
        if !is_early {
            self.last = Some(Instant::now());
            let report = Report::<()>::Progress(cut(line).to_owned());
            // Short: below any limit.
            if let Ok(bytes) = frame::encode(&report, 2 * LINE_BYTES_MAX) {
                let _unread = write(&bytes);
            }
        }
    }
}

/// Writes a frame to descriptor 1 at once.
pub(crate) fn write(bytes: &[u8]) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(bytes)?;
    // The standard library holds back what no line break follows.
    output.flush()
}

/// The line, cut to [`LINE_BYTES_MAX`].
pub(crate) fn cut(line: &str) -> &str {
    &line[..line.floor_char_boundary(LINE_BYTES_MAX)]
}
