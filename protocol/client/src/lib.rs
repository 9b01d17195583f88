//! A client of the `/v1` HTTP API, for the command line, for tests and for tools.
//!
//! - [`Client`]: an address, credentials and one kept connection. `get`, `put`, `delete` answer
//!   typed values with the headers that matter ([`Answer`]); `stream` answers bytes as they come;
//!   `websocket` opens the stream that `alloc exec` uses.
//! - [`Address`]: `http://`, `https://` or `unix://`, as users write it in `NOMAD_ADDR`.
//! - [`TlsFiles`]: the certificates for `https://`.
//! - [`ClientError`]: whose fault it was: the network's, the server's (with its words), or ours.
//!
//! Bodies are bounded: an answer larger than [`ANSWER_BYTES_MAX`] is refused rather than read. So
//! is time: a server that takes a connection and says nothing is waited for as long as
//! [`Client::with_patience`] says, and for questions that ask it to wait as long as that, too.

mod address;
mod answer;
mod connection;
mod error;
mod http;
mod patience;
mod query;
mod tls;
mod tls_trouble;
mod unverified;

pub use address::Address;
pub use answer::{Answer, ByteStream};
pub use client::Client;
pub use connection::{Socket, WebSocket};
pub use error::ClientError;
pub use query::Query;
pub use tls::{TlsFiles, Verify};
pub use tls_trouble::TlsTrouble;

mod client;

/// The largest answer that is read into memory. A list of 1,000,000 allocations would not fit and
/// has to be read in pages.
pub const ANSWER_BYTES_MAX: usize = 512 * 1024 * 1024;
