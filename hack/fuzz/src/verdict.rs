//! What a target says of its input, so that a feeder can tell whether it reaches anything.

use std::error::Error;

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
        let mut words = Vec::new();
        let mut next = Some(error);
        while let Some(error) = next {
            words.push(error.to_string());
            next = error.source();
        }
        Self::refused_with(words.join(": "))
    }

    /// A refusal that is already in words; there have to be some.
    pub(crate) fn refused_with(words: String) -> Self {
        assert!(!words.is_empty(), "an error says nothing");
        Self::Refused(words)
    }
}
