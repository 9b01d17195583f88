//! Every order of events of a node's handshake, to a depth: not those that chance draws, all.
//!
//! The world is as small as it can be and still go wrong: one node with its journal, two servers
//! that may hold its session and see the log each in its own time, the log, two jobs of one
//! allocation each, and another node, always well, that takes what is replaced. What is decided is
//! the product's: `apply`, the scheduler and the plan check, the watch's chain, `NodeCore`. What
//! the shells do between them is imitated, as in `hack/sim`.
//!
//! A step ([`action::Action`]) is one of: a message arrives (per stream in order; streams and
//! connections independently), an end gives a connection up, a proposal is committed or its
//! proposer left without an answer (it may be committed later or never), a server applies one
//! entry, the journal's sync is done, the daemon is killed or the host loses power (what was not
//! synced is gone) and starts again, a server is killed, a timer fires, the leader takes the node
//! for silent, finds its report overdue or its window over, an evaluation is scheduled.
//!
//! Bounds: steps from a beginning ([`roots::Root`]) and faults on one way. The test looks at 5
//! steps and 2 faults; `cargo xtask check-handshake --depth 11` takes about ten minutes of one
//! core for all beginnings, with 2 faults.
//!
//! Left out, and why nothing is missed by it:
//!
//! - Orders that differ only in who went first among parts that do not meet: they end in one state
//!   by its digest ([`digest`]), from which is gone on once.
//! - A message that is lost without its connection, or doubled: QUIC does neither. A cut that
//!   nobody notices is messages that do not arrive yet.
//! - Time: a timer fires when nothing else can happen, while the node pauses before its next
//!   attempt, or early as a fault. Clocks go to when it was due, no further.
//! - How far a server is whose connections are none: nobody sees it.
//! - Heartbeats: the node's are answered where they are sent, unless a fault has it otherwise, and
//!   the leader takes the node for silent whenever it likes.
//! - What the host does for a task is done at once: `noded-core` and keeper have tests of their own
//!   for what may fall between.
//!
//! In every state that is reached the invariants hold ([`invariants`]); from every state of the
//! last level, where nothing goes wrong any more, the node becomes ready and what is wanted runs.

pub mod action;
mod bend;
pub mod digest;
mod ids;
pub mod invariants;
pub mod leading;
mod log;
pub mod mutant;
mod net;
mod node;
mod rest;
pub mod roots;
pub mod search;
mod server;
pub mod world;
