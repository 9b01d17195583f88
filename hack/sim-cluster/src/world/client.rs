//! Operators, what they wish, and what they were promised.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use controlplane_server::cluster::Cluster;
use controlplane_state::command::{JobDeregister, JobRegister, Purge};
use controlplane_state::{Command, Outcome};
use hack_sim::rng::Rng;
use hack_sim::schedule::jobs::Kind;
use protocol_model::{EvalId, EvalTrigger, Evaluation, Job, UnixNanos};

use super::World;
use crate::eyes::{Eyes, Observation};
use crate::net::Machine;
use crate::schedule::job;
use crate::schedule::op::{Op, OpKind, usual};

/// The stream of chance that ids of evaluations come from.
const STREAM_IDS: u64 = 20;

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Clients {
    eyes: Arc<Eyes>,
    kinds: Vec<Kind>,
    rng: Rng,
    /// Per job, whether its registration for the end was acknowledged.
    end: Vec<Arc<Mutex<Wish>>>,
}

/// How a wish stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Wish {
    #[default]
    Open,
    Asked,
    Done,
}

impl Clients {
    pub(super) fn new(eyes: &Arc<Eyes>, kinds: &[Kind], seed: u64) -> Self {
        Self {
            eyes: Arc::clone(eyes),
            kinds: kinds.to_vec(),
            rng: Rng::new(seed, STREAM_IDS),
            end: kinds.iter().map(|_| Arc::default()).collect(),
        }
    }

    /// Asks a server for something; what comes of it is noted.
    pub(super) fn wish(&mut self, op: Op, cluster: Option<Cluster>) {
        let Some(cluster) = cluster else {
            return;
        };
        if op.kind == OpKind::Read {
            tokio::spawn(read(Arc::clone(&self.eyes), op.server, cluster));
            return;
        }
        let command = self.command(op.kind, &cluster);
        let eyes = Arc::clone(&self.eyes);
        tokio::spawn(async move {
            eyes.note(|| format!("wish {}: {:?}", op.number, op.kind));
            change(&eyes, &cluster, command, op.number).await;
        });
    }

    /// What was wished for before does not count any more.
    pub(super) fn forget(&mut self) {
        self.end = self.kinds.iter().map(|_| Arc::default()).collect();
    }

    /// Whether everything for the end was acknowledged.
    pub(super) fn all_done(&self) -> bool {
        self.end.iter().all(|wish| *lock(wish) == Wish::Done)
    }

    /// Asks for each job as it is wanted in the end, where that is not under way.
    fn wish_for_the_end(&mut self, cluster: &Cluster) {
        for job in 0..self.kinds.len() {
            let wish = Arc::clone(&self.end[job]);
            if *lock(&wish) != Wish::Open {
                continue;
            }
            *lock(&wish) = Wish::Asked;
            let again = OpKind::Register {
                job,
                count: usual(self.kinds[job]),
                generation: 0,
            };
            let command = self.command(again, cluster);
            let (eyes, cluster) = (Arc::clone(&self.eyes), cluster.clone());
            tokio::spawn(async move {
                let done = change(&eyes, &cluster, command, u32::MAX).await;
                *lock(&wish) = if done { Wish::Done } else { Wish::Open };
            });
        }
    }

    fn command(&mut self, kind: OpKind, cluster: &Cluster) -> Command {
        match kind {
            OpKind::Read => Command::Barrier,
            OpKind::Register {
                job,
                count,
                generation,
            } => {
                let job = job::job(job, self.kinds[job], count, generation);
                let eval = self.eval(&job, EvalTrigger::JobRegister, cluster);
                Command::JobRegister(JobRegister {
                    spec: job.spec_hash(),
                    job: Arc::new(job),
                    eval: Some(eval),
                    enforce_index: None,
                    submission: None,
                })
            }
            OpKind::Stop { job } => {
                let job = job::job(job, self.kinds[job], 1, 0);
                let eval = self.eval(&job, EvalTrigger::JobDeregister, cluster);
                Command::JobDeregister(JobDeregister {
                    key: job.key(),
                    purge: Purge::Keep,
                    eval: Some(eval),
                    no_shutdown_delay: false,
                })
            }
            OpKind::Evaluate { job } => {
                let job = job::job(job, self.kinds[job], 1, 0);
                let eval = self.eval(&job, EvalTrigger::JobRegister, cluster);
                Command::JobEvaluate {
                    eval,
                    force_reschedule: false,
                }
            }
        }
    }

    fn eval(&mut self, job: &Job, trigger: EvalTrigger, cluster: &Cluster) -> Evaluation {
        let id = EvalId::from_u128(self.rng.id());
        let now: UnixNanos = cluster.snapshot().now();
        Evaluation::new(id, &job.key(), job.job_type, job.priority, trigger, now)
    }
}

/// Answers whether it is certain that the state has it.
async fn change(eyes: &Eyes, cluster: &Cluster, command: Command, number: u32) -> bool {
    let key = match &command {
        Command::JobRegister(register) => Some(register.job.key()),
        _ => None,
    };
    let changed = cluster.change(command).await;
    match changed {
        Ok(changed) => {
            eyes.note(|| format!("wish {number} is acknowledged at {}", changed.index));
            eyes.acknowledged(changed.index);
            if let (
                Some(key),
                Outcome::JobRegistered {
                    job_modify_index, ..
                },
            ) = (key, &changed.outcome)
            {
                eyes.promised(key, *job_modify_index);
            }
            true
        }
        Err(error) => {
            eyes.note(|| format!("wish {number}: {error}"));
            false
        }
    }
}

/// Reads consistently; a server that finds no leader in time says so, which is no answer.
async fn read(eyes: Arc<Eyes>, server: Machine, cluster: Cluster) {
    let acknowledged = eyes.view().promises.index;
    if let Ok(state) = cluster.consistent().await {
        eyes.see(&Observation::Read {
            server,
            acknowledged,
            index: state.index(),
        });
    }
}

fn lock(wish: &Mutex<Wish>) -> MutexGuard<'_, Wish> {
    wish.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(super) fn ask_for_the_end(&mut self) {
        if let Some(cluster) = self.cluster_at(0) {
            self.clients.wish_for_the_end(&cluster);
        }
    }
}
