//! Policies: documents in HCL or JSON, and the rules that they state.
//!
//! ```text
//! text --syntax--> tree --decode--> Policy
//!            `-- errors with line and column --'
//! ```
//!
//! | limit | value | beyond it |
//! |---|---|---|
//! | [`DOCUMENT_BYTES_MAX`] | 64 KiB | refused |
//! | [`RULES_MAX`] | 1,024 rules of a document | refused |
//! | [`ERRORS_MAX`] | 50 errors of a document | counted only |

mod decode;
mod error;
mod rules;
mod syntax;

pub use self::decode::RULES_MAX;
pub use self::error::{ERRORS_MAX, PolicyError, PolicyErrors};
pub use self::rules::{NamespaceRule, OperatorRule, Policy, Rule};

use self::decode::Mode;
use self::error::Problems;

/// Largest document of a policy, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024;

impl Policy {
    /// Reads a document that a user writes: every key, name and capability must be known. No text
    /// at all is a policy without rights.
    ///
    /// # Errors
    /// All errors of the document.
    pub fn parse(text: &str) -> Result<Self, PolicyErrors> {
        read(text, Mode::Strict)
    }

    /// Reads a document that was stored, perhaps by a later release: unknown keys, levels and
    /// capabilities give nothing.
    ///
    /// # Errors
    /// The grammar, or the type of a known key. Such a document may lack a `deny`: callers give no
    /// rights to a token that it belongs to.
    pub fn parse_leniently(text: &str) -> Result<Self, PolicyErrors> {
        read(text, Mode::Lenient)
    }
}

fn read(text: &str, mode: Mode) -> Result<Policy, PolicyErrors> {
    let mut problems = Problems::default();
    if text.is_empty() {
        return Ok(Policy::default());
    }
    if text.len() > DOCUMENT_BYTES_MAX {
        let length = text.len();
        let limit = format!(
            "the document has {length} bytes, at most {DOCUMENT_BYTES_MAX} are read; split it"
        );
        problems.failed(&(0..0), limit);
        return problems.or(text, Policy::default());
    }
    let items = syntax::read(text, &mut problems);
    let policy = decode::policy(&items, mode, &mut problems);
    problems.or(text, policy)
}
