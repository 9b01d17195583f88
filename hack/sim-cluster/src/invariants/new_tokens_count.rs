//! An acknowledged token is accepted by each server with the next request.

use super::Invariant;
use crate::eyes::{Observation, View};
use crate::tokens::Standing;

#[derive(Debug)]
pub(super) struct NewTokensCount;

impl Invariant for NewTokensCount {
    fn name(&self) -> &'static str {
        "new_tokens_count"
    }

    fn source(&self) -> &'static str {
        "docs/access.md: a new token works on every server with the next request"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &View) -> Result<(), String> {
        match seen {
            Observation::TokenUsed(used)
                if used.asked == Standing::Made
                    && used.answered == Standing::Made
                    && !used.served =>
            {
                Err(format!(
                    "s{} refuses a {:?} with token {}, which was acknowledged before",
                    used.server, used.what, used.token
                ))
            }
            _ => Ok(()),
        }
    }
}
