//! A group that stops itself is gone when its node was without a daemon, or reached no server, for
//! so long: nobody extends its lease.

use hack_sim::judges::Leased;
use tokio::time::Instant;

use super::Invariant;
use crate::eyes::{Observation, View};

#[derive(Debug, Default)]
pub(super) struct LeasesEnd {
    judge: Leased,
}

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
        view.teach_leased(&mut self.judge);
        let now = Instant::now();
        for (host, since) in view.daemonless.iter().chain(&view.cut_off) {
            let Some(tasks) = view.hosts.get(host) else {
                continue;
            };
            let lasts = now.duration_since(*since);
            let live = tasks.running().into_iter();
            self.judge.outlived((*host).into(), lasts, live)?;
        }
        Ok(())
    }
}
