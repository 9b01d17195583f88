//! Where planted bugs bite the log. Without one, everything here hands on what it was given.

use controlplane_state::command::{AllocChange, Change, NodeSynced, PlanApply};
use controlplane_state::{Command, Snapshot};
use protocol_model::{JobKey, NodeStatus};

use crate::ids::NODE;
use crate::mutant::Mutant;
use crate::world::World;

impl World {
    /// A command as it is applied.
    pub(crate) fn bend(&self, mut command: Command) -> Command {
        let epoch = self.node_epoch();
        match (&mut command, self.mutant) {
            (Command::HeartbeatMissed { nodes }, Some(Mutant::ExpiryWithoutEpoch)) => {
                for (_, of) in nodes {
                    *of = epoch;
                }
            }
            (Command::NodeSynced(synced), Some(Mutant::SyncWithoutEpoch)) => synced.epoch = epoch,
            (Command::AllocUpdates { batches }, Some(Mutant::EarlyUpdates))
                if self.node_status() == Some(NodeStatus::Initializing) =>
            {
                let mine = batches.iter().find(|batch| batch.node == NODE);
                if let Some(batch) = mine {
                    return Command::NodeSynced(Box::new(NodeSynced {
                        node: NODE,
                        epoch,
                        watch_index: 0,
                        changed: batch.reports.clone(),
                        unchanged: self.all_of_it(),
                        facts: None,
                    }));
                }
            }
            _ => {}
        }
        command
    }

    /// A plan as it is proposed.
    pub(crate) fn bend_plan(&self, job: &JobKey, plan: &mut PlanApply) {
        let stop = plan
            .changed
            .iter()
            .find(|it| matches!(it.change, Change::Stop { .. }));
        let Some(stop) = stop
            .filter(|_| self.mutant == Some(Mutant::BothStopped))
            .cloned()
        else {
            return;
        };
        let allocs = self.log.state.tables().allocs_by_job(job);
        let others = allocs.filter(|it| it.id != stop.id && !it.terminal());
        let others = others.map(|it| it.id).collect::<Vec<_>>();
        for id in others {
            plan.changed.push(AllocChange { id, ..stop.clone() });
        }
    }

    fn all_of_it(&self) -> Vec<protocol_model::AllocId> {
        let allocs = self.log.state.tables().allocs_on_node(NODE);
        allocs.map(|alloc| alloc.id).collect()
    }

    /// What a planted bug does once an entry is applied.
    pub(crate) fn after_bend(&mut self, before: &Snapshot, asked: &Command) {
        let silent = before.node(NODE).is_some_and(|record| {
            matches!(
                record.node.status,
                NodeStatus::Down | NodeStatus::Disconnected
            )
        });
        if self.mutant == Some(Mutant::UngatedReady)
            && matches!(asked, Command::NodeHello(_))
            && silent
        {
            let command = Command::NodeSynced(Box::new(NodeSynced {
                node: NODE,
                epoch: self.node_epoch(),
                watch_index: 0,
                changed: Vec::new(),
                unchanged: self.all_of_it(),
                facts: None,
            }));
            let digest = self.log.digest.with("ungated");
            self.append(command, digest);
        }
    }
}
