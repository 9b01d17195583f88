//! In one term one server leads.

use std::collections::BTreeMap;

use super::Invariant;
use crate::eyes::{Observation, View};
use crate::net::Machine;

#[derive(Debug, Default)]
pub(super) struct OneLeader {
    by_term: BTreeMap<u64, Machine>,
}

impl Invariant for OneLeader {
    fn name(&self) -> &'static str {
        "one_leader"
    }

    fn source(&self) -> &'static str {
        "the replicated log: at most one leader in a term"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &View) -> Result<(), String> {
        let Observation::Standing { server, status } = seen else {
            return Ok(());
        };
        if !status.is_leader() {
            return Ok(());
        }
        let known = *self.by_term.entry(status.term).or_insert(*server);
        if known == *server {
            return Ok(());
        }
        Err(format!(
            "s{known} and s{server} led in term {}",
            status.term
        ))
    }
}
