//! After a revocation was acknowledged no server answers a consistent read with the token.

use super::Invariant;
use crate::eyes::{Observation, View};
use crate::tokens::Use;

#[derive(Debug)]
pub(super) struct RevokedReadsNothing;

impl Invariant for RevokedReadsNothing {
    fn name(&self) -> &'static str {
        "revoked_reads_nothing"
    }

    fn source(&self) -> &'static str {
        "docs/access.md: a token that is deleted or loses a right is refused with the next request"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &View) -> Result<(), String> {
        match seen {
            Observation::TokenUsed(used)
                if used.what == Use::Read && used.asked.is_revoked() && used.served =>
            {
                Err(format!(
                    "s{} answers a read with token {}, whose revocation was acknowledged before",
                    used.server, used.token
                ))
            }
            _ => Ok(()),
        }
    }
}
