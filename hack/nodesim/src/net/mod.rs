//! One UDP socket for many nodes, and for each of them a wire that can be cut.
//!
//! ```text
//!   connection of node 7 --driver polled with "wire 7" at hand--> try_send --cut?--> socket
//!   socket --> poll_recv: whose connection id is it? --cut?--> the endpoint, the connection
//! ```
//!
//! A QUIC endpoint does not tell its socket whose packet it sends, but it asks the runtime to drive
//! each connection: [`runtime`] remembers for which node that was, and [`socket`] reads our
//! connection ids in long headers as they leave, to know what comes back by. A cut drops packets
//! both ways, as a pulled cable does; nobody is told. [`late`] makes every round trip longer.

pub mod late;
pub mod runtime;
pub mod socket;
#[cfg(test)]
mod tests;
pub mod wire;

pub use late::Lateness;
pub use runtime::WiredRuntime;
pub use wire::{Wire, Wires};
