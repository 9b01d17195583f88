//! The last things that happened, for whoever reads a failure.

use std::collections::VecDeque;

use controlplane_state::command::PlanApply;
use controlplane_state::{Applied, Command, Outcome};

use crate::node_ids::node_ix;
use crate::time::{Nanos, show};

/// The newest lines.
#[derive(Clone, Debug)]
pub struct Trace {
    lines: VecDeque<String>,
    lines_max: usize,
}

impl Trace {
    /// Keeps this many lines.
    pub fn of(lines_max: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            lines_max,
        }
    }

    pub(super) fn line(&mut self, at: Nanos, step: u64, line: &str) {
        if self.lines.len() >= self.lines_max {
            self.lines.pop_front();
        }
        self.lines
            .push_back(format!("{} {step:>8}  {line}", show(at)));
    }

    pub(super) fn command(
        &mut self,
        at: Nanos,
        step: u64,
        index: u64,
        command: &Command,
        applied: &Applied,
    ) {
        let outcome = match &applied.outcome {
            Outcome::Refused(refusal) => format!("refused: {refusal}"),
            Outcome::NoOp => "no-op".to_owned(),
            Outcome::Welcome(welcome) => format!("{:?} {}", welcome.kind, welcome.epoch),
            Outcome::Updates(results) => {
                let all = results.iter().map(|it| {
                    let rejected = it.rejected.map(|why| format!("{why:?}"));
                    rejected.unwrap_or_else(|| format!("{:?}", it.results))
                });
                all.collect::<Vec<_>>().join("; ")
            }
            Outcome::Synced { lost, .. } if !lost.is_empty() => {
                let lost: Vec<_> = lost.iter().map(protocol_model::AllocId::short).collect();
                format!("lost {}", lost.join(" "))
            }
            _ => String::new(),
        };
        self.line(
            at,
            step,
            &format!("log {index}: {} {outcome}", describe(command)),
        );
    }

    /// The lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

/// A command in a few words.
fn describe(command: &Command) -> String {
    match command {
        Command::NodeHello(hello) => format!("hello n{}", node_ix(hello.node)),
        Command::NodeSynced(synced) => format!(
            "synced n{} epoch {} watch {} changed {:?} same {}",
            node_ix(synced.node),
            synced.epoch,
            synced.watch_index,
            synced
                .changed
                .iter()
                .map(|it| format!("{} {}", it.id.short(), it.client_status.as_str()))
                .collect::<Vec<_>>(),
            synced.unchanged.len()
        ),
        Command::AllocUpdates { batches } => {
            let all = batches.iter().map(|batch| {
                let reports = batch.reports.iter();
                let reports = reports.map(|it| {
                    let status = it.client_status.as_str();
                    format!("{} {status} r{}", it.id.short(), it.revision)
                });
                let reports: Vec<_> = reports.collect();
                format!(
                    "n{} epoch {} {:?} #{}: {}",
                    node_ix(batch.node),
                    batch.epoch,
                    batch.class,
                    batch.seq,
                    reports.join(", ")
                )
            });
            format!("updates {}", all.collect::<Vec<_>>().join("; "))
        }
        Command::HeartbeatMissed { nodes } => {
            let nodes: Vec<_> = nodes
                .iter()
                .map(|(node, epoch)| format!("n{} ({epoch})", node_ix(*node)))
                .collect();
            format!("missed {}", nodes.join(" "))
        }
        Command::PlanApply(plan) => describe_plan(plan),
        Command::JobRegister(register) => format!(
            "register {} count {:?}",
            register.job.id,
            register.job.task_groups.first().and_then(|it| it.count)
        ),
        Command::JobDeregister(it) => format!("stop {}", it.key.id),
        Command::EvalsUpsert { evals } => format!("{} evaluations", evals.len()),
        Command::GcCollect(it) => format!("gc {} allocations", it.allocs.len()),
        Command::Barrier => "barrier".to_owned(),
        other => {
            let mut text = format!("{other:?}");
            text.truncate(120);
            text
        }
    }
}

fn describe_plan(plan: &PlanApply) -> String {
    let placed = plan.placed.iter();
    let placed = placed.map(|it| {
        let previous = it
            .previous_allocation
            .map(|id| format!(" for {}", id.short()));
        let previous = previous.unwrap_or_default();
        format!("{} on n{}{previous}", it.id.short(), node_ix(it.node_id))
    });
    let changed = plan.changed.iter();
    let changed = changed.map(|it| format!("{} {:?}", it.id.short(), it.change));
    format!(
        "plan: placed [{}] changed [{}] updated {}",
        placed.collect::<Vec<_>>().join(", "),
        changed.collect::<Vec<_>>().join(", "),
        plan.updated.len()
    )
}
