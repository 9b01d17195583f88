//! What a simulated node does on its host: an imitation, of which everything that counts is seen.

use std::sync::Arc;

use futures::future::BoxFuture;
use hack_nodesim::hands::IdleHands;
use noded_core::event::{Exit, ExitStatus, LeasesAnswer, RunEvent};
use noded_core::{Effect, Event, Moment, RunKey};
use noded_daemon::hands::Hands;
use noded_daemon::upkeep::DiskUse;
use protocol_model::{AllocId, Node, UnixNanos};
use tokio_util::sync::CancellationToken;

use crate::eyes::{Eyes, Observation};
use crate::mutant::Mutant;
use crate::net::Machine;

/// See the top of this file.
#[derive(Debug)]
pub struct SeenHands {
    pub machine: Machine,
    pub inner: Arc<IdleHands>,
    pub eyes: Arc<Eyes>,
    /// A planted bug.
    pub mutant: Option<Mutant>,
}

impl Hands for SeenHands {
    fn carry_out(
        self: Arc<Self>,
        effect: Effect,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Vec<Event>> {
        let node = self.machine;
        match &effect {
            Effect::StartTask(start) => {
                let run = &start.run;
                // Such a start is refused.
                if !self.inner.tasks.lease_is_over(run.alloc) {
                    self.eyes.see(&Observation::Spawned { node, run });
                }
            }
            Effect::StopTask { run, .. } | Effect::KillTask { run } => {
                self.eyes.see(&Observation::StopAsked { node, run });
                if self.mutant == Some(Mutant::TasksOutlive) {
                    let ended = ended(run.clone());
                    return Box::pin(async move { vec![ended] });
                }
            }
            // Nobody forgets what goes on.
            Effect::ReleaseRun { .. } if self.mutant == Some(Mutant::TasksOutlive) => {
                return Box::pin(async { Vec::new() });
            }
            _ => {}
        }
        Arc::clone(&self.inner).carry_out(effect, cancel)
    }

    fn tend_leases(
        &self,
        extend: Vec<(AllocId, Moment)>,
        end: Vec<AllocId>,
    ) -> BoxFuture<'_, Option<LeasesAnswer>> {
        if self.mutant == Some(Mutant::LeaseWithDaemon) {
            return Box::pin(async { Some(LeasesAnswer::Done) });
        }
        let mut extend = extend;
        if self.mutant == Some(Mutant::LeaseOnce) {
            extend.retain(|(alloc, _)| !self.inner.tasks.has_lease(*alloc));
        }
        self.inner.tend_leases(extend, end)
    }

    fn on_facts(&self, before: &Node, now: &Node) {
        self.inner.on_facts(before, now);
    }

    fn is_too_full(&self, measured: DiskUse) -> bool {
        self.inner.is_too_full(measured)
    }
}

fn ended(run: RunKey) -> Event {
    let exit = Exit {
        status: ExitStatus::Code(0),
        oom_killed: false,
        signal_discarded: false,
        lease_expired: false,
        at: UnixNanos(0),
    };
    let event = RunEvent::Exited(exit);
    Event::Run { run, event }
}
