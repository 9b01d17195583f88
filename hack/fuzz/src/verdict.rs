//! What a target says of its input, so that a feeder can tell whether it reaches anything.

use std::error::Error;

use protocol_error_chain::chain;

/// Whether the bytes meant something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They were decoded, and survived being written and read again.
    Understood,
    /// They were refused: the error in words, its sources included.
    Refused(String),
}

impl Verdict {
    /// A refusal whose words were formed, sources included: printing an error must not fail either.
    pub(crate) fn refused(error: &dyn Error) -> Self {
        Self::refused_with(chain(error))
    }

    /// A refusal that is already in words; there have to be some.
    pub(crate) fn refused_with(words: String) -> Self {
        assert!(!words.is_empty(), "an error says nothing");
        Self::Refused(words)
    }
}
