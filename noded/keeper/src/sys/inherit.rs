//! Descriptors that this program was started with on purpose. No crate can know that a number is
//! one of those.

use rustix::io::Errno;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The standard descriptors are std's.
const FIRST: RawFd = 3;

/// Takes over an inherited descriptor; from then on it closes at exec like every other.
///
/// # Errors
/// `BADF` where the number is none, or one that this program opened itself.
pub(crate) fn adopt(number: RawFd) -> Result<OwnedFd, Errno> {
    if number < FIRST {
        return Err(Errno::BADF);
    }
    // SAFETY: the call reads and writes no memory; a bad number is an error.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    // std and everything in this crate open with close-on-exec. So one without the mark came with
    // the exec, and nothing here owns it yet; once it is adopted it has the mark.
    if flags == -1 || flags & libc::FD_CLOEXEC != 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is open and nobody's (see above), and adopting it again fails.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes every descriptor that came with the exec. For a start that found no use for them.
///
/// Only those without the mark: everything else here has an owner.
pub(crate) fn close_rest() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers: Vec<RawFd> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers {
        drop(adopt(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, IntoRawFd};

    #[test]
    fn only_what_was_left_open_for_us_is_adopted_and_only_once() {
        let own = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(adopt(own.as_raw_fd()).unwrap_err(), Errno::BADF);
        assert_eq!(adopt(1).unwrap_err(), Errno::BADF);
        assert_eq!(adopt(1_000_000).unwrap_err(), Errno::BADF);
        rustix::io::fcntl_setfd(&own, rustix::io::FdFlags::empty()).unwrap();
        let number = own.into_raw_fd();
        let adopted = adopt(number).unwrap();
        assert_eq!(adopt(number).unwrap_err(), Errno::BADF);
        let flags = rustix::io::fcntl_getfd(&adopted).unwrap();
        assert_eq!(flags, rustix::io::FdFlags::CLOEXEC);
    }
}
