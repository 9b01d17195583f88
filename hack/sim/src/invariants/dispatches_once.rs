//! A dispatch launches one child per token, and a child that a client was told of exists, with the
//! payload that it brought and an evaluation that starts it.

use std::collections::BTreeMap;

use controlplane_state::command::{ChildJob, PlanApply};
use controlplane_state::{Applied, Command, Launched, Outcome, Snapshot};
use noded_core::RunKey;
use protocol_model::{EvalStatus, JobKey};

use super::{Invariant, Observation};
use crate::event::NodeIx;
use crate::schedule::jobs;
use crate::world::World;

/// A child that was made.
#[derive(Clone, Copy, Debug)]
struct Child {
    token: u32,
    create_index: u64,
    /// It was over and forgotten.
    collected: bool,
}

/// Every child that was ever made, and the newest one of each token.
#[derive(Debug, Default)]
pub(super) struct DispatchesOnce {
    made: BTreeMap<JobKey, Child>,
    of_token: BTreeMap<(JobKey, u32), JobKey>,
}

impl Invariant for DispatchesOnce {
    fn name(&self) -> &'static str {
        "dispatches_once"
    }

    fn source(&self) -> &'static str {
        "job files, Parameterized jobs: a token that comes again launches nothing"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match *seen {
            Observation::Applied {
                before,
                after,
                command: Command::JobDispatch(child),
                applied,
            } => self.on_dispatch(child, before, after, applied, world),
            Observation::Applied {
                after,
                command: Command::PlanApply(plan),
                ..
            } => self.on_plan(plan, after),
            Observation::Applied {
                after,
                command: Command::GcCollect(collected),
                ..
            } => {
                for key in &collected.jobs {
                    if after.job(key).is_none()
                        && let Some(child) = self.made.get_mut(key)
                    {
                        child.collected = true;
                    }
                }
                Ok(())
            }
            Observation::Spawned { node, run } => self.on_run(world, node, run),
            Observation::Dispatched { token, launched } => self.on_told(token, launched),
            Observation::Second | Observation::Rested => self.all_there(world),
            _ => Ok(()),
        }
    }
}

impl DispatchesOnce {
    fn on_dispatch(
        &mut self,
        asked: &ChildJob,
        before: &Snapshot,
        after: &Snapshot,
        applied: &Applied,
        world: &World,
    ) -> Result<(), String> {
        let Outcome::JobDispatched(launched) = &applied.outcome else {
            return Ok(());
        };
        if launched.create_index != applied.index {
            return Ok(());
        }
        let key = &launched.child;
        let Some(token) = world.clients.tokens.get(&key.id).copied() else {
            return Err(format!("{key} was launched, and nobody asked for it"));
        };
        let child = Child {
            token,
            create_index: applied.index,
            collected: false,
        };
        self.made.insert(key.clone(), child);
        let of_token = (asked.parent(), token);
        if let Some(other) = self.of_token.insert(of_token, key.clone())
            && before.job(&other).is_some()
        {
            return Err(format!("token {token} launched {other} and then {key}"));
        }
        let payload = after.job(key).and_then(|job| job.payload.clone());
        if payload != Some(jobs::payload(token)) {
            return Err(format!("{key} of token {token} has {payload:?}"));
        }
        let eval = launched.eval.and_then(|id| after.eval(id));
        match eval.is_some_and(|it| it.status == EvalStatus::Pending && it.job_key() == *key) {
            true => Ok(()),
            false => Err(format!("{key} was launched, and nobody will look at it")),
        }
    }

    /// Allocations of a child, and so its node, have the child's own payload.
    fn on_plan(&self, plan: &PlanApply, after: &Snapshot) -> Result<(), String> {
        for alloc in &plan.placed {
            let Some(child) = self.made.get(&alloc.job_key()) else {
                continue;
            };
            let job = after.job_of_alloc(alloc);
            let payload = job.and_then(|job| job.payload.clone());
            if after.alloc(alloc.id).is_some() && payload != Some(jobs::payload(child.token)) {
                let id = alloc.id.short();
                return Err(format!("{id} of token {} has {payload:?}", child.token));
            }
        }
        Ok(())
    }

    /// A host runs a child with the payload that its dispatch brought.
    fn on_run(&self, world: &World, node: NodeIx, run: &RunKey) -> Result<(), String> {
        let core = world.node(node).core.as_ref();
        let Some(job) = core.and_then(|core| Some(core.alloc(run.alloc)?.spec().job())) else {
            return Ok(());
        };
        let Some(child) = self.made.get(&job.key()) else {
            return Ok(());
        };
        let payload = job.payload.clone();
        if payload == Some(jobs::payload(child.token)) {
            return Ok(());
        }
        let token = child.token;
        Err(format!(
            "n{node} runs {run} of token {token} with {payload:?}"
        ))
    }

    fn on_told(&self, token: u32, launched: &Launched) -> Result<(), String> {
        let Launched {
            child,
            create_index,
            ..
        } = launched;
        match self.made.get(child) {
            Some(made) if made.token == token && made.create_index == *create_index => Ok(()),
            made => Err(format!(
                "token {token} was answered {child} of {create_index}, which is {made:?}"
            )),
        }
    }

    fn all_there(&self, world: &World) -> Result<(), String> {
        let mut made = self.made.iter();
        let lost = made.find(|(key, child)| !child.collected && world.state().job(key).is_none());
        match lost {
            None => Ok(()),
            Some((key, child)) => Err(format!("{key} of token {} is lost", child.token)),
        }
    }
}
