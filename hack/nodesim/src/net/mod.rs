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
//! both ways, as a pulled cable does; nobody is told. What [`weather`] does to a datagram is
//! decided there; those that come later for it wait in [`late`].

mod late;
pub mod runtime;
mod socket;
#[cfg(test)]
mod tests;
pub mod weather;
pub mod wire;

pub use runtime::WiredRuntime;
pub use weather::{Sky, Weather};
pub use wire::{Wire, Wires};
