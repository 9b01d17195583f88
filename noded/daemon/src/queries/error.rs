//! The reasons why a question has no answer.

use std::time::Duration;

use protocol_model::duration::format_go;

/// A question without an answer. Every one of these may pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The node has no session.
    #[error("the node has no session with a server")]
    NoSession,
    /// The server is of a release that answers no questions.
    #[error(
        "the server {address} speaks protocol {protocol}, which has no questions of nodes: upgrade \
         it"
    )]
    OldServer {
        /// The server.
        address: String,
        /// The version of the session.
        protocol: u32,
    },
    /// No answer came.
    #[error("the server did not answer within {}", format_go(*limit))]
    Silent {
        /// How long it was waited for.
        limit: Duration,
    },
    /// The stream broke, or carried something else.
    #[error("{problem}")]
    Broken {
        /// How.
        problem: String,
    },
    /// The server refused.
    #[error("{message} (status {status})")]
    Refused {
        /// The HTTP status that fits.
        status: u32,
        /// The server's words.
        message: String,
    },
    /// The answer belongs to another question.
    #[error("the server's answer is none to this question")]
    Unexpected,
}
