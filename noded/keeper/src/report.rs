//! Lines on stderr. A line that cannot be written (a full tmpfs, a reader that left) is lost, and
//! nothing else is: `eprintln!` would end the process, and with it the custody of every task.
//!
//! Where stderr is a file (noded starts the two, and no service manager) it is begun anew when it
//! has grown: it lies on the tmpfs that holds the records.

use std::fmt::Arguments;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs;

/// The largest file of messages.
pub(crate) const MESSAGES_BYTES_MAX: u64 = 1024 * 1024;

/// `tell!("keeper: ...")`, as `eprintln!`.
macro_rules! tell {
    ($($words:tt)*) => {
        $crate::report::line(format_args!($($words)*))
    };
}
pub(crate) use tell;

pub(crate) fn line(words: Arguments<'_>) {
    // One write, so that the lines of two processes do not mix.
    let line = format!("{words}\n");
    let stderr = std::io::stderr();
    let _ = stderr.lock().write_all(line.as_bytes());
    keep_small(stderr.as_fd());
}

/// Empties a file of messages that is beyond its limit.
fn keep_small(messages: BorrowedFd<'_>) {
    let grown = fs::fstat(messages).is_ok_and(|stat| {
        let is_file = fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::RegularFile;
        is_file && u64::try_from(stat.st_size).is_ok_and(|bytes| bytes > MESSAGES_BYTES_MAX)
    });
    if grown {
        // Left as it is where that is refused: it is opened for writing, and appended to.
        let _ = fs::ftruncate(messages, 0);
    }
}

/// Tells a service manager, where there is one, that whoever was to be started after this process
/// may be.
pub(crate) fn ready(who: &str) {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tell!("{who}: the service manager was not told: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_messages_is_begun_anew_when_it_has_grown() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one line\n").unwrap();
        keep_small(file.as_fd());
        assert_eq!(file.metadata().unwrap().len(), 9);
        file.set_len(MESSAGES_BYTES_MAX + 1).unwrap();
        keep_small(file.as_fd());
        assert_eq!(file.metadata().unwrap().len(), 0);
    }
}
