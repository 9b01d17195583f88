//! Where planted bugs about drains, dispatches, preemption and locks bite.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::Command;
use controlplane_state::command::{
    AllocChange, Change, ChildJob, DrainMark, DrainMarks, PlanApply, Preempted,
};
use protocol_model::{
    AllocId, Allocation, DesiredTransition, EvalId, EvalTrigger, Evaluation, JobKey, JobType,
    UnixNanos,
};

use super::World;
use crate::mutant::Mutant;
use crate::schedule::jobs;

impl World {
    /// An entry about drains, dispatches, preemption or locks as it is applied.
    pub(super) fn bend_jobs(&self, command: &mut Command, seed: [u8; 16], now: UnixNanos) {
        let bent = match (&mut *command, self.mutant) {
            (Command::AllocsMigrate { nodes }, Some(Mutant::DrainedAtOnce)) => {
                self.all_leave(nodes, JobType::Service, seed, now)
            }
            (Command::AllocsMigrate { nodes }, Some(Mutant::SystemLeavesFirst)) => {
                self.all_leave(nodes, JobType::System, seed, now)
            }
            (Command::JobDispatch(child), Some(mutant)) => {
                bend_child(child, mutant);
                None
            }
            (Command::PlanApply(plan), Some(mutant)) => {
                self.bend_victims(plan, mutant);
                None
            }
            (Command::VariableLocksExpire(expire), Some(Mutant::LocksNamedByPath)) => {
                for (key, id) in &mut expire.locks {
                    let variable = self.state().variable(key);
                    let lock = variable.and_then(|variable| variable.lock.as_ref());
                    *id = lock.map_or(*id, |lock| lock.id);
                }
                None
            }
            _ => None,
        };
        if let Some(bent) = bent {
            *command = bent;
        }
    }

    /// With what is asked to leave all of this type is, whatever the state thinks of it.
    fn all_leave(
        &self,
        nodes: &[DrainMarks],
        job_type: JobType,
        seed: [u8; 16],
        now: UnixNanos,
    ) -> Option<Command> {
        let marks = || nodes.iter().flat_map(|it| &it.marks);
        if marks().any(|(_, mark)| *mark != DrainMark::Migrate) {
            return None;
        }
        let asked: BTreeSet<AllocId> = marks().map(|(id, _)| *id).collect();
        let state = self.state();
        let mut allocs = Vec::new();
        let mut evals: BTreeMap<JobKey, Evaluation> = BTreeMap::new();
        for alloc in nodes.iter().flat_map(|it| state.allocs_on_node(it.node)) {
            let Some(job) = state.job_of_alloc(alloc).filter(|_| !alloc.terminal()) else {
                continue;
            };
            if job.job_type != job_type && !asked.contains(&alloc.id) {
                continue;
            }
            let wish = DesiredTransition {
                migrate: Some(true),
                ..DesiredTransition::default()
            };
            allocs.push((alloc.id, wish));
            let id = EvalId::from_u128(u128::from_le_bytes(seed) ^ evals.len() as u128);
            evals.entry(alloc.job_key()).or_insert_with_key(|key| {
                let trigger = EvalTrigger::NodeDrain;
                Evaluation::new(id, key, job.job_type, job.priority, trigger, now)
            });
        }
        let evals = evals.into_values().collect();
        Some(Command::AllocsStop { allocs, evals })
    }

    fn bend_victims(&self, plan: &mut PlanApply, mutant: Mutant) {
        match mutant {
            Mutant::VictimsTooNear => {
                let near = plan.placed.iter().find_map(|by| self.too_near(plan, by));
                plan.preempted.extend(near);
            }
            Mutant::OneVictimMore => {
                let more = plan
                    .preempted
                    .iter()
                    .find_map(|it| self.one_more(plan, *it));
                plan.preempted.extend(more);
            }
            Mutant::VictimsUnseen => {
                let stop = |victim: Preempted| AllocChange {
                    id: victim.id,
                    change: Change::Stop {
                        description: "preempted".to_owned(),
                        client_status: None,
                        followup_eval: None,
                    },
                };
                plan.changed.extend(plan.preempted.drain(..).map(stop));
            }
            Mutant::VictimsUnawaited => {
                for alloc in &mut plan.placed {
                    Arc::make_mut(alloc).preempted_allocations.clear();
                }
            }
            _ => {}
        }
    }

    fn too_near(&self, plan: &PlanApply, by: &Allocation) -> Option<Preempted> {
        self.victim(plan, by, |own, other| other > own - 10)
    }

    fn one_more(&self, plan: &PlanApply, one: Preempted) -> Option<Preempted> {
        let by = plan.placed.iter().find(|alloc| alloc.id == one.by)?;
        self.victim(plan, by, |own, other| other <= own - 10)
    }

    /// Something on the node of `by` that a plan spares, with a priority that is `meant`.
    fn victim(
        &self,
        plan: &PlanApply,
        by: &Allocation,
        meant: impl Fn(i32, i32) -> bool,
    ) -> Option<Preempted> {
        let state = self.state();
        let own = state.spec(by.spec)?.priority;
        let spared = |id: AllocId| {
            plan.preempted.iter().all(|it| it.id != id) && plan.changed.iter().all(|it| it.id != id)
        };
        let mut on_node = state.allocs_on_node(by.node_id);
        let victim = on_node.find(|alloc| {
            let priority = state.spec(alloc.spec).map(|job| job.priority);
            !alloc.terminal() && spared(alloc.id) && priority.is_some_and(|other| meant(own, other))
        })?;
        Some(Preempted {
            id: victim.id,
            by: by.id,
        })
    }
}

fn bend_child(child: &mut ChildJob, mutant: Mutant) {
    match mutant {
        Mutant::TokensForgotten => {
            let job = Arc::make_mut(&mut child.job);
            job.dispatch_idempotency_token.clear();
        }
        Mutant::PayloadsMixed => Arc::make_mut(&mut child.job).payload = Some(jobs::payload(0)),
        Mutant::ChildrenUnseen => child.eval = None,
        _ => {}
    }
}
