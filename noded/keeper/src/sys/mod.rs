//! The only code of this crate that the compiler cannot check: memory shared with the kernel, and
//! calls that no safe crate offers.

pub(crate) mod inherit;
pub(crate) mod pidfd;
pub(crate) mod ring;
pub(crate) mod unix_file;
pub(crate) mod wait;
