//! The replicated log, behind types of our own: no other crate names the library it is built on.
//!
//! A [`Raft`] is one server's part in the control plane. It takes command bytes, makes them
//! durable on a majority, and gives them in order to a [`Machine`]; it answers who leads, keeps
//! the membership, and streams checkpoints of the machine to servers that fell behind.
//!
//! Entry points:
//!
//! - [`Raft::open`] reads a data directory back (or makes a new one, with a new [`ServerId`]),
//!   restores the machine and starts.
//! - [`Raft::form`] makes the server part of a cluster: it forms one with its peers exactly once,
//!   or joins the one that exists. Returns at once on a server that is a member already.
//! - [`Raft::propose`] replicates a command; [`Raft::read_barrier`] makes local state current.
//! - [`Raft::status`] is a watch on role, term, leader, indexes and membership.
//! - [`Raft::serve_stream`] answers a peer: the accept loop calls it for every stream of
//!   [`protocol_transport::StreamKind::Raft`].
//! - [`Raft::watch_removal`] finds out whether the cluster goes on without this server.
//! - [`Raft::failed`] ends when storage failed, or an entry was not understood. The process must
//!   exit then: what was promised to other servers may not be on disk.
//!
//! ```text
//!   propose --> openraft core --> store::log (one sync per group)
//!                  |    ^
//!      network::client  network::server  <-- serve_stream
//!                  |
//!                  v committed entries
//!            store::machine --> Machine::apply --> response --> propose returns
//!                  |
//!                  v every N entries
//!            Machine::checkpoint --> store::snapshot (file, CRC, fsync, rename)
//! ```
//!
//! On disk, below the data directory: `log/` (segments with entries, votes, the committed index and
//! the server's id), `snapshots/` (the two newest), `server-id` (for people), `formation` (a
//! pledge, until a cluster is formed), `lock`. All records begin with a version byte.

mod compaction;
mod config;
mod engine;
mod error;
mod formation;
mod handle;
mod machine;
mod member;
mod members;
mod network;
mod open;
mod record;
mod removal;
mod split_vote;
mod status;
mod store;
mod successor;

pub use config::{ConfigError, RaftConfig};
pub use error::{ChangeError, ProposeError, ReadError, SnapshotError, StoppedError};
pub use formation::FormError;
pub use handle::{Checkpoint, Proposed, Raft};
pub use machine::{ApplyError, CheckpointSource, Machine, Position, RestoreError};
pub use member::{Leader, Membership, ServerId, ServerIdError, ServerInfo};
pub use network::ServeError;
pub use open::OpenError;
pub use status::{RaftRole, RaftStatus};
pub use store::directory::DirectoryError;
pub use store::disk::{Disk, DiskFile, Lock, Opening};
pub use store::host_disk::HostDisk;
pub use store::recovery::{SegmentContent, inspect_segment};
