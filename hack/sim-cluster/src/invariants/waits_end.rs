//! A query that waits is refused soon after its server applied the revocation of its token, and is
//! never answered after it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Invariant;
use crate::eyes::{Observation, View};
use crate::net::Machine;
use crate::tokens::TokenNumber;

/// The longest that a query waits on from there: a second is promised, and looks are 250 ms apart.
const WAITS_ON_MAX: Duration = Duration::from_millis(1250);

#[derive(Debug, Default)]
pub(super) struct WaitsEnd {
    /// Since when a server is known to have applied the revocation while a query waits there.
    applied: BTreeMap<(TokenNumber, Machine), Instant>,
}

impl Invariant for WaitsEnd {
    fn name(&self) -> &'static str {
        "waits_end"
    }

    fn source(&self) -> &'static str {
        "docs/access.md: a waiting query whose right is gone ends within a second, with 403"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        match seen {
            Observation::WaitAnswered {
                server,
                token,
                applied,
            } if view
                .tokens
                .revoked_at(*token)
                .is_some_and(|at| at <= *applied) =>
            {
                Err(format!(
                    "s{server} answers a query that waited with token {token}, whose revocation it had \
                 applied"
                ))
            }
            Observation::Look => self.look(view),
            _ => Ok(()),
        }
    }
}

impl WaitsEnd {
    fn look(&mut self, view: &View) -> Result<(), String> {
        let applied: BTreeMap<Machine, u64> = view
            .states()
            .map(|(server, state)| (server, state.index()))
            .collect();
        let knows = |(token, server): &(TokenNumber, Machine)| {
            let (at, applied) = (view.tokens.revoked_at(*token), applied.get(server));
            at.zip(applied).is_some_and(|(at, applied)| at <= *applied)
        };
        let late = view.tokens.waiting.iter().filter(|wait| knows(wait));
        let now = Instant::now();
        let since = |wait| (wait, *self.applied.get(&wait).unwrap_or(&now));
        self.applied = late.copied().map(since).collect();
        let mut waits = self.applied.iter();
        match waits.find(|(_, since)| now - **since > WAITS_ON_MAX) {
            None => Ok(()),
            Some(((token, server), since)) => Err(format!(
                "a query with token {token} waits on s{server} {:?} after its revocation was \
                 applied there",
                now - *since
            )),
        }
    }
}
