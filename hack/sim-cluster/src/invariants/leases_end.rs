//! A group that stops itself is gone when its node was without a daemon for so long: nobody extends
//! its lease.

use std::time::Duration;

use hack_sim::schedule::jobs::{KILL_TIMEOUT, LEASE};
use tokio::time::Instant;

use super::Invariant;
use crate::eyes::{Observation, View};

/// Looks are some time apart.
const MARGIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct LeasesEnd;

impl Invariant for LeasesEnd {
    fn name(&self) -> &'static str {
        "leases_end"
    }

    fn source(&self) -> &'static str {
        "reconnect.md: stop_on_client_after is a lease, which keeper enforces, noded alive or not"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        if !matches!(seen, Observation::Look) {
            return Ok(());
        }
        let (now, limit) = (Instant::now(), LEASE + KILL_TIMEOUT + MARGIN);
        let leased = |alloc| {
            let alloc = view.newest.alloc(alloc);
            alloc.is_some_and(|alloc| view.is_leased(alloc))
        };
        let left_alone = view.running().find(|(host, run)| {
            let since = view.daemonless.get(host);
            since.is_some_and(|since| now.duration_since(*since) > limit) && leased(run.alloc)
        });
        match left_alone {
            None => Ok(()),
            Some((host, run)) => Err(format!(
                "n{host} has had no daemon for {} s and runs {run}",
                limit.as_secs()
            )),
        }
    }
}
