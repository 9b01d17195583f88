//! A node becomes ready in a session only with the complete report of that session, and then the
//! state says what its host does: what has run there since before the session is not awaited, and
//! what was never begun there does not run.

use std::collections::BTreeMap;
use std::time::Duration;

use controlplane_state::{NodeRecord, SessionEpoch, Snapshot};
use protocol_model::{AllocId, ClientStatus, NodeId, NodeStatus};
use tokio::time::Instant;

use super::Invariant;
use crate::eyes::{Observation, View};
use crate::net::Machine;

/// How long before its session a run must have begun for the report to be sure to know of it: a
/// task takes a moment to start, and its disk a while to be told.
const KNOWN_AFTER: Duration = Duration::from_secs(2);

/// See the top of this file.
#[derive(Debug, Default)]
pub(super) struct ReadyAfterSync {
    /// When the newest run of each allocation began, in this boot of its host.
    begun: BTreeMap<Machine, BTreeMap<AllocId, Instant>>,
    boots: BTreeMap<Machine, [u8; 16]>,
    /// Each node's newest session, and when a server had it first.
    made: BTreeMap<NodeId, (SessionEpoch, Instant)>,
    /// The newest report of each node that was looked at.
    looked_at: BTreeMap<NodeId, u64>,
}

impl Invariant for ReadyAfterSync {
    fn name(&self) -> &'static str {
        "ready_after_sync"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, the promise (holes 1 and 2)"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        match seen {
            Observation::Spawned { node, run } => {
                let begun = self.begun.entry(*node).or_default();
                begun.insert(run.alloc, Instant::now());
                Ok(())
            }
            Observation::DaemonStarted { node, boot, .. } => {
                if self.boots.insert(*node, *boot) != Some(*boot) {
                    self.begun.remove(node);
                }
                Ok(())
            }
            Observation::Applied { before, after, .. } => {
                for record in after.nodes() {
                    self.look(before, after, record, view)?;
                }
                Ok(())
            }
            Observation::Standing { .. }
            | Observation::StopAsked { .. }
            | Observation::WatermarkMoved { .. }
            | Observation::Read { .. }
            | Observation::JobRead { .. }
            | Observation::Look
            | Observation::PoolAsked { .. }
            | Observation::TokenUsed(_)
            | Observation::WaitAnswered { .. }
            | Observation::Rested => Ok(()),
        }
    }
}

impl ReadyAfterSync {
    fn look(
        &mut self,
        before: &Snapshot,
        after: &Snapshot,
        record: &NodeRecord,
        view: &View,
    ) -> Result<(), String> {
        let (session, id) = (&record.session, record.node.id);
        let made = self
            .made
            .entry(id)
            .or_insert_with(|| (session.epoch, Instant::now()));
        if session.epoch > made.0 {
            *made = (session.epoch, Instant::now());
        }
        if record.node.status != NodeStatus::Ready {
            return Ok(());
        }
        if session.synced_index <= session.epoch.0 {
            return Err(format!(
                "{} is ready in session {}, its last report is of index {}",
                record.node.name, session.epoch, session.synced_index
            ));
        }
        let looked_at = self.looked_at.entry(id).or_default();
        if session.synced_index <= *looked_at {
            return Ok(());
        }
        *looked_at = session.synced_index;
        let was = before.node(id).map(|record| record.node.status);
        match view.ids.get(&id) {
            Some(host) if was != Some(NodeStatus::Ready) => self.compare(*host, id, after, view),
            _ => Ok(()),
        }
    }

    /// Holds the state against the host of a node that has become ready.
    fn compare(
        &self,
        host: Machine,
        node: NodeId,
        after: &Snapshot,
        view: &View,
    ) -> Result<(), String> {
        let made = self.made.get(&node).map(|(_, at)| *at);
        let begun = self.begun.get(&host);
        let begun_at = |alloc: AllocId| begun.and_then(|begun| begun.get(&alloc));
        let known = |alloc: AllocId| {
            let known_at = begun_at(alloc).map(|at| *at + KNOWN_AFTER);
            known_at.is_some_and(|at| made.is_some_and(|made| at < made))
        };
        let running = view.hosts.get(&host).map(|tasks| tasks.running());
        for run in running.unwrap_or_default() {
            let Some(alloc) = after.alloc(run.alloc) else {
                continue;
            };
            let awaited = matches!(
                alloc.client_status,
                ClientStatus::Pending | ClientStatus::Unknown
            );
            if alloc.node_id == node && awaited && known(run.alloc) {
                return Err(format!(
                    "n{host} is ready and runs {run} for long, which is {}",
                    alloc.client_status.as_str()
                ));
            }
        }
        let runs = |status| status == ClientStatus::Running;
        let mut allocs = after.allocs_on_node(node);
        let never = allocs.find(|it| runs(it.client_status) && begun_at(it.id).is_none());
        match never {
            None => Ok(()),
            Some(alloc) => Err(format!(
                "n{host} is ready, and {}, which it never began since its boot, runs there",
                alloc.id.short()
            )),
        }
    }
}
