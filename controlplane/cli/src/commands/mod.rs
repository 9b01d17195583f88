//! One module per command, or per family of small ones.

pub(crate) mod acl;
pub(crate) mod alloc;
mod api;
pub(crate) mod cluster;
pub(crate) mod deployment;
mod drain;
pub(crate) mod eval;
mod foreign;
pub(crate) mod job;
mod keyring;
pub(crate) mod login;
pub(crate) mod namespace;
pub(crate) mod node;
mod node_meta;
mod node_pool;
pub(crate) mod operator;
pub(crate) mod scaling;
pub(crate) mod scheduler;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod tls;
pub(crate) mod var;
