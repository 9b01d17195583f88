//! The only code of this crate that the compiler cannot check: memory shared with the kernel.

pub(crate) mod ring;
