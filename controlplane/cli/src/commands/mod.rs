//! One module per command, or per family of small ones.

pub(crate) mod alloc;
pub(crate) mod job;
pub(crate) mod node;
pub(crate) mod tls;
