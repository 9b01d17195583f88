//! What tasks and the host use, in the shapes of the API.

mod host;
mod memory;
mod usage;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use noded_core::RunKey;
use protocol_wire::v1;
use serde_json::{Value, json};

use super::{CallEnd, CallFailed, CallServer, Replies};
use crate::clock;
use crate::executor::{Executor, cgroup_of, keeper_key};
use crate::input::{AllocView, Liveness};
use memory::Memory;
use usage::{Sample, Usage};

/// Between the two samples that a rate is made of.
const SAMPLE: Duration = Duration::from_millis(100);

impl CallServer {
    pub(super) async fn stats(
        &self,
        view: &AllocView,
        request: &v1::StatsRequest,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let wanted = &request.task;
        if !wanted.is_empty() && view.spec.task(wanted).is_none() {
            let problem = format!("unknown task name {wanted:?}");
            return Err(CallFailed::not_found(problem).into());
        }
        let runs: Vec<RunKey> = view
            .runs
            .iter()
            .filter(|(run, liveness)| {
                *liveness == Liveness::Alive && (wanted.is_empty() || run.task == *wanted)
            })
            .map(|(run, _)| run.clone())
            .collect();
        let again = runs.clone();
        let before = self.look(move |node| Ok(samples(node, &runs))).await?;
        tokio::time::sleep(SAMPLE).await;
        let after = self.look(move |node| Ok(samples(node, &again))).await?;
        let timestamp = clock::wall().0;
        let mut sum = Usage::default();
        let mut shown = serde_json::Map::new();
        for (task, second) in &after {
            let Some(first) = before.get(task) else {
                continue;
            };
            let usage = Usage::between(first, second, self.core_mhz);
            sum.add(&usage);
            let value = json!({
                "ResourceUsage": usage.shown(),
                "Timestamp": timestamp,
                "Pids": Value::Null,
            });
            shown.insert(task.clone(), value);
        }
        let answer = json!({
            "ResourceUsage": sum.shown(),
            "Tasks": shown,
            "Timestamp": timestamp,
        });
        replies.json(&answer).await
    }
}

fn samples(node: &Executor, runs: &[RunKey]) -> BTreeMap<String, Sample> {
    runs.iter()
        // A task that ended meanwhile has none.
        .filter_map(|run| Some((run.task.clone(), sample(node, run)?)))
        .collect()
}

fn sample(node: &Executor, run: &RunKey) -> Option<Sample> {
    let path = cgroup_of(&keeper_key(run)?).ok()?;
    let cgroup = node.hierarchy.open_task(&path).ok()?;
    let stats = cgroup.stat_reader().ok()?.read().ok()?;
    let memory = match stats.memory_bytes {
        Some(usage) => Memory::of_cgroup(|file| cgroup.read(file).ok(), usage, stats.swap_bytes),
        None => Memory::of_processes(&cgroup.procs().ok()?),
    };
    Some(Sample {
        at: Instant::now(),
        stats,
        memory,
    })
}
