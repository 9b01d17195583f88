//! Whole clusters in virtual time, as they are: three servers and five nodes, openraft and quinn
//! included, in one process and one thread. Only what lies below them is imitated.
//!
//! ```text
//!   Settings (seed) --> Schedule (faults, wishes, jobs) --> world::run --> Failure or rest
//!
//!   server x 3   Server, its log on disk::SimDisk   \   net::Network: UDP in memory
//!   node x 5     the daemon's loop and sessions,     >  one runtime, whose clock moves only
//!                tasks and a journal in memory      /   when nobody has anything to do
//! ```
//!
//! - [`schedule::Schedule`]: what is done to a run, as data: it can be shrunk.
//! - [`world::run`]: safety first, with faults; then everything is healed, and must come to rest.
//! - [`invariants`]: what must hold, one file each; [`eyes`] show them what happens.
//! - [`mutant::Mutant`]: planted bugs, which must be found. [`report`]: many runs.
//! - [`arguments`]: how runs are asked for on the command line, and the line that replays one.
//!
//! What a replay repeats: the faults, the wishes, their moments to the millisecond, the fate of the
//! n-th packet, the identities of nodes, what disks lose. What it does not: what TLS and openraft
//! draw (keys, times of elections), ids of servers, of allocations and of evaluations that servers
//! make, hash seeds. Most failures come again with their seed, some with one run in a few.
//!
//! A process that is killed reaches neither network nor disk any more, and ends then. Operators use
//! the HTTP API without TCP, and tasks end with the leases that keeper keeps. Not imitated:
//! operators' calls to nodes, names on disks that were not synced. The form without shells, which
//! is thousands of times faster, is `hack-sim`; what both judge alike is its `judges`.

pub mod arguments;
pub mod disk;
pub mod eyes;
pub mod invariants;
pub mod keks;
pub mod mutant;
pub mod net;
pub mod node;
pub mod panics;
pub mod pki;
pub mod report;
pub mod schedule;
pub mod server;
pub mod time;
pub mod tokens;
pub mod watchdog;
pub mod world;
