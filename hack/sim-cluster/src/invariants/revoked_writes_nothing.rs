//! A write that is sent after the revocation of its token was acknowledged is not made: neither
//! acknowledged nor found in any server's state later.

use std::collections::BTreeMap;

use super::Invariant;
use crate::eyes::{Observation, View};
use crate::tokens::{TokenNumber, Use};

#[derive(Debug, Default)]
pub(super) struct RevokedWritesNothing {
    /// Node pools that may never be there, and the token that was shown for each.
    forbidden: BTreeMap<String, TokenNumber>,
}

impl Invariant for RevokedWritesNothing {
    fn name(&self) -> &'static str {
        "revoked_writes_nothing"
    }

    fn source(&self) -> &'static str {
        "controlplane-server, cluster/recheck.rs: a leader judges the caller of a change once more"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        match seen {
            Observation::PoolAsked { token, asked, pool } if asked.is_revoked() => {
                self.forbidden.insert((*pool).to_owned(), *token);
                Ok(())
            }
            Observation::TokenUsed(used)
                if used.what == Use::Write && used.asked.is_revoked() && used.served =>
            {
                Err(format!(
                    "s{} acknowledges a write with token {}, whose revocation was acknowledged \
                     before",
                    used.server, used.token
                ))
            }
            Observation::Look | Observation::Rested => {
                let mut forbidden = self.forbidden.iter();
                match forbidden.find(|(pool, _)| view.newest.node_pool(pool).is_some()) {
                    None => Ok(()),
                    Some((pool, token)) => Err(format!(
                        "node pool {pool} was made with token {token} after its revocation was \
                         acknowledged"
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}
