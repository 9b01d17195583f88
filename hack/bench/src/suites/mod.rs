//! The suites, one file or folder each.

pub(crate) mod sessions;
pub(crate) mod start_here;
pub(crate) mod updates;
