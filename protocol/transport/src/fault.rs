//! Whose fault an error on the wire is: it decides who is told, who retries and who is cut off.

/// The party that has to change something for the operation to succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The other side broke the protocol; its connection should be closed.
    Peer,
    /// We asked for something that is not allowed; a retry repeats the mistake.
    Us,
    /// The network or the host failed; a retry may succeed.
    Environment,
}
