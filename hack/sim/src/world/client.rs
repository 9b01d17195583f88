//! Operators and what they were promised: a wish that was acknowledged is in the state, one of
//! which nobody knows may be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_leader::failed::{Failed, Reverts, failed, watcher_eval};
use controlplane_state::command::{
    DeploymentChange, DeploymentPromote, DeploymentStatusUpdate, JobDeregister, JobRegister,
    NodeDrainSet, PromoteGroups, Purge,
};
use controlplane_state::{Applied, Command, Outcome, PreemptionConfig, SchedulerConfig};
use protocol_model::{
    AllocId, Allocation, Deployment, DeploymentStatus, DesiredTransition, Eligibility, EvalId,
    EvalTrigger, Evaluation, Job, JobKey,
};

use super::World;
use crate::event::{Answer, Event, NodeIx, ServerIx};
use crate::node_ids::node_id;
use crate::schedule::op::{Op, OpKind, Steering};
use crate::schedule::{Schedule, jobs};
use crate::server::change::Then;
use crate::time::{MILLI, SECOND, wall};

/// What operators know.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// Per job, the modify index that was acknowledged.
    pub acknowledged: BTreeMap<JobKey, u64>,
    /// Per job, the newest entry that stopped it: it may be collected then.
    pub stopped_at: BTreeMap<JobKey, u64>,
    /// Per job, what is wanted when everything is healed: how many, or none.
    pub wanted: Vec<Option<u32>>,
    /// The token of each child that a dispatch proposed, by its id.
    pub tokens: BTreeMap<String, u32>,
    /// The root keys that an operator removed by force, or tried to.
    pub forced: BTreeSet<u32>,
    /// Wishes by their place in the schedule; those for the end come after them.
    ops: Vec<Op>,
    /// Wishes for the end that nobody has acknowledged yet.
    pub open: usize,
    for_the_end: usize,
}

impl Clients {
    pub(super) fn new(schedule: &Schedule) -> Self {
        Self {
            ops: schedule.ops.clone(),
            for_the_end: schedule.ops.len(),
            ..Self::default()
        }
    }

    /// What the log says, whoever asked for it.
    pub(super) fn on_applied(&mut self, command: &Command, applied: &Applied) {
        if let (Command::JobDeregister(stop), Outcome::JobDeregistered { .. }) =
            (command, &applied.outcome)
        {
            self.stopped_at.insert(stop.key.clone(), applied.index);
        }
        if let Command::GcCollect(collected) = command {
            for key in &collected.jobs {
                self.stopped_at.insert(key.clone(), applied.index);
            }
        }
    }
}

impl World {
    pub(super) fn begin_op(&mut self, number: u32) {
        let Some(op) = self.clients.ops.get(number as usize).copied() else {
            return;
        };
        let late = self.calm && (number as usize) < self.clients.for_the_end;
        if late {
            return;
        }
        if let OpKind::Relabel { node, rack } = op.kind {
            return self.relabel(node, rack);
        }
        // An operator whose server is down asks another.
        let mut server = op.server;
        if !self.servers[usize::from(server)].runs() {
            let up = (0..self.schedule.servers).find(|ix| self.servers[usize::from(*ix)].runs());
            let Some(up) = up else {
                return self.ask_again(number);
            };
            server = up;
        }
        let Some(command) = self.command_of(op.kind, server) else {
            return;
        };
        self.note(|| format!("wish {number} at s{server}: {:?}", op.kind));
        self.change(server, command, Then::Op(number));
    }

    fn ask_again(&mut self, number: u32) {
        if number as usize >= self.clients.for_the_end {
            self.queue.push(self.now + SECOND, Event::Op(number));
        }
    }

    /// What a server is asked for; a host's own operator asks none.
    fn command_of(&mut self, kind: OpKind, server: ServerIx) -> Option<Command> {
        Some(match kind {
            OpKind::Register {
                job,
                count,
                generation,
            } => {
                let job = self.job(job, count, generation);
                let eval = self.eval(&job, EvalTrigger::JobRegister);
                let eval = Some(eval).filter(|_| !job.is_template());
                Command::JobRegister(JobRegister {
                    spec: job.spec_hash(),
                    job: Arc::new(job),
                    eval,
                    enforce_index: None,
                    submission: None,
                })
            }
            OpKind::Stop { job } => {
                let job = self.job(job, 1, 0);
                let eval = self.eval(&job, EvalTrigger::JobDeregister);
                let eval = Some(eval).filter(|_| !job.is_template());
                Command::JobDeregister(JobDeregister {
                    key: job.key(),
                    purge: Purge::Keep,
                    eval,
                    no_shutdown_delay: false,
                })
            }
            OpKind::StopAlloc { job, pick } => {
                let job = self.job(job, 1, 0);
                let id = self.wanted_of(&job.key(), pick)?;
                let eval = self.eval(&job, EvalTrigger::AllocStop);
                let wish = DesiredTransition {
                    migrate: Some(true),
                    ..DesiredTransition::default()
                };
                Command::AllocsStop {
                    allocs: vec![(id, wish)],
                    evals: vec![eval],
                }
            }
            OpKind::Steer { job, wish } => return self.steer(job, wish),
            OpKind::Evaluate { job } => {
                let job = self.job(job, 1, 0);
                if job.is_template() {
                    return None;
                }
                let eval = self.eval(&job, EvalTrigger::JobRegister);
                Command::JobEvaluate {
                    eval,
                    force_reschedule: false,
                }
            }
            OpKind::Dispatch { job, token } => return self.dispatch(server, job, token),
            OpKind::AllowPreemption => allow_preemption(),
            OpKind::Drain { node, spec } => Command::NodeDrainSet(NodeDrainSet {
                node: node_id(node),
                drain: spec,
                eligibility_after: Eligibility::Eligible,
                accessor_id: String::new(),
                meta: None,
            }),
            OpKind::Purge { node } => Command::NodePurge {
                node: node_id(node),
            },
            OpKind::Key(wish) => return self.key_wish(server, wish),
            OpKind::Relabel { .. } => return None,
        })
    }

    /// A change of the job's newest deployment, as the API makes it.
    fn steer(&mut self, job: usize, wish: Steering) -> Option<Command> {
        let key = JobKey::new("default", jobs::name(job));
        let eval = EvalId::from_u128(self.rng.id());
        let now = wall(self.now, 0);
        let state = self.state();
        let deployment = state.latest_deployment(&key)?;
        let eval = watcher_eval(state, deployment, eval, now);
        let becomes = |status, description: &str, eval| {
            Command::DeploymentStatus(DeploymentStatusUpdate {
                change: DeploymentChange {
                    id: deployment.id,
                    status,
                    description: description.to_owned(),
                    from: Some(deployment.status),
                },
                revert: None,
                eval,
            })
        };
        Some(match wish {
            Steering::Promote => Command::DeploymentPromote(DeploymentPromote {
                id: deployment.id,
                groups: PromoteGroups::All,
                eval,
                from: None,
            }),
            Steering::Pause => becomes(DeploymentStatus::Paused, Deployment::PAUSED, None),
            Steering::Resume => {
                let text = deployment.running_description();
                becomes(DeploymentStatus::Running, text, eval)
            }
            Steering::Fail => {
                let mut groups = deployment.task_groups.values();
                let reverts = match groups.any(|group| group.auto_revert) {
                    true => Reverts::IfStable,
                    false => Reverts::Never,
                };
                let reason = (Deployment::MARKED_FAILED, None);
                let Failed { change, revert } = failed(state, deployment, reason, reverts);
                Command::DeploymentStatus(DeploymentStatusUpdate {
                    change,
                    revert,
                    eval,
                })
            }
        })
    }

    /// The one of a job's allocations that an operator means, of those that are wanted.
    fn wanted_of(&self, job: &JobKey, pick: u32) -> Option<AllocId> {
        let wanted = |alloc: &&Arc<Allocation>| !alloc.terminal();
        let state = self.state();
        let ids = state.allocs_by_job(job).filter(wanted).map(|it| it.id);
        let ids: Vec<AllocId> = ids.collect();
        let picked = (pick as usize).checked_rem(ids.len())?;
        ids.get(picked).copied()
    }

    fn job(&self, offset: usize, count: u32, generation: u32) -> Job {
        let Schedule {
            jobs: kinds, nodes, ..
        } = &self.schedule;
        let mut job = jobs::job(offset, kinds[offset], count, generation);
        jobs::fit_to_size(&mut job, *nodes);
        job
    }

    pub(super) fn eval(&mut self, job: &Job, trigger: EvalTrigger) -> Evaluation {
        let id = EvalId::from_u128(self.rng.id());
        let now = wall(self.now, 0);
        Evaluation::new(id, &job.key(), job.job_type, job.priority, trigger, now)
    }

    /// An operator hears what became of a wish.
    pub(crate) fn on_op_done(&mut self, number: u32, answer: &Answer) {
        let for_the_end = number as usize >= self.clients.for_the_end;
        if let Some(Op {
            kind: OpKind::Dispatch { token, .. },
            ..
        }) = self.clients.ops.get(number as usize)
        {
            return self.on_dispatched(number, *token, answer);
        }
        if self.is_sealed_again(number, answer) {
            return;
        }
        match answer {
            Answer::Done { outcome, .. } => {
                self.counts.ops_acknowledged += 1;
                if let Outcome::JobRegistered {
                    job_modify_index, ..
                } = outcome
                    && let Some(Op {
                        kind: OpKind::Register { job, .. },
                        ..
                    }) = self.clients.ops.get(number as usize)
                {
                    let key = JobKey::new("default", jobs::name(*job));
                    let known = self.clients.acknowledged.entry(key).or_default();
                    *known = (*known).max(*job_modify_index);
                }
            }
            Answer::NoLeader | Answer::Unknown => {
                self.counts.ops_unknown += 1;
                return self.ask_again(number);
            }
            Answer::Refused(_) => {}
        }
        if for_the_end {
            self.clients.open = self.clients.open.saturating_sub(1);
        }
    }

    /// Everything is healed: each job is asked for once more, so that what is wanted is certain.
    pub(super) fn wish_for_the_end(&mut self) {
        self.abandon_ops();
        let mut add = |at, kind| {
            let number = u32::try_from(self.clients.ops.len()).unwrap_or(u32::MAX);
            let server = u8::try_from(number % u32::from(self.schedule.servers)).unwrap_or(0);
            self.clients.ops.push(Op {
                number,
                at,
                server,
                kind,
            });
            self.clients.open += 1;
            self.queue.push(at, Event::Op(number));
        };
        let mut wanted = Vec::new();
        let kinds = self.schedule.jobs.clone();
        for (job, kind) in kinds.iter().enumerate() {
            let at = self.now + 100 * MILLI + job as u64 * 10 * MILLI;
            let count = jobs::count(*kind, self.schedule.nodes);
            let stop = self.rng.chance(200) && job > 0;
            if stop {
                add(at, OpKind::Stop { job });
                wanted.push(None);
            } else {
                let again = OpKind::Register {
                    job,
                    count,
                    generation: jobs::last_generation(*kind),
                };
                add(at, again);
                wanted.push(Some(count));
            }
        }
        // A drain may be in the log's hands still.
        let drained: BTreeSet<NodeIx> = self
            .schedule
            .ops
            .iter()
            .filter_map(|op| match op.kind {
                OpKind::Drain { node, .. } => Some(node),
                _ => None,
            })
            .collect();
        for node in drained {
            add(self.now + 50 * MILLI, OpKind::Drain { node, spec: None });
        }
        self.clients.wanted = wanted;
    }
}

/// For services only: that system jobs may is the default.
fn allow_preemption() -> Command {
    Command::SchedulerConfigSet {
        config: SchedulerConfig {
            preemption: PreemptionConfig {
                service: true,
                ..PreemptionConfig::default()
            },
            ..SchedulerConfig::default()
        },
        enforce_index: None,
    }
}
