//! Lines on stderr. A line that cannot be written (a full tmpfs, a reader that left) is lost, and
//! nothing else is: `eprintln!` would end the process, and with it the custody of every task.

use std::error::Error;
use std::fmt::Arguments;
use std::io::Write as _;

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
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Tells a service manager, where there is one, that whoever was to be started after this process
/// may be.
pub(crate) fn ready(who: &str) {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tell!("{who}: the service manager was not told: {error}");
    }
}

/// An error and its sources, in one line.
pub(crate) fn in_full(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        source = cause.source();
    }
    words
}
