//! One allocation: where it is, what its tasks do, what happened to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{Allocation, TaskEvent, TaskEventKind, TaskRunState, TaskState};
use serde_json::Value;

use super::columns::{Columns, pairs};
use super::{placement, time, word};
use crate::find::{Length, shown};
use crate::output::Colour;
use crate::session::Clock;

/// How an allocation is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'c> {
    pub(crate) length: Length,
    pub(crate) colour: Colour,
    pub(crate) clock: &'c Clock,
}

impl View<'_> {
    /// The head and a line per task.
    pub(crate) fn short(&self, alloc: &Allocation) -> String {
        let mut table = Columns::new(&["Name", "State", "Last Event", "Time", "Lifecycle"]);
        for (name, state) in &alloc.task_states {
            let last = state.events.last();
            table.row([
                name.clone(),
                word(&state.state),
                last.map(|event| word(&event.kind)).unwrap_or_default(),
                last.map_or_else(String::new, |event| self.clock.date(event.time)),
                lifecycle(alloc, name),
            ]);
        }
        let title = self.colour.bold("Tasks");
        format!("{}\n{title}\n{}", self.head(alloc), table.render())
    }

    /// All of it.
    pub(crate) fn whole(&self, alloc: &Allocation) -> String {
        let mut sections = vec![self.head(alloc)];
        if let Some(addresses) = self.addresses(alloc) {
            sections.push(addresses);
        }
        let planned = alloc.allocated_resources.tasks.keys();
        let mut names: Vec<&String> = planned.chain(alloc.task_states.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            sections.push(self.task(alloc, name));
        }
        if self.length == Length::Whole {
            sections.push(self.placement(alloc));
        }
        sections.join("\n")
    }

    fn head(&self, alloc: &Allocation) -> String {
        let id = |id: String| shown(&id, self.length);
        let created = self.clock.past(alloc.create_time, self.length);
        let modified = self.clock.past(alloc.modify_time, self.length);
        let mut all = vec![
            ("ID", alloc.id.to_string()),
            ("Eval ID", id(alloc.eval_id.to_string())),
            ("Name", alloc.name.clone()),
            ("Node ID", id(alloc.node_id.to_string())),
            ("Node Name", alloc.node_name.clone()),
            ("Job ID", alloc.job_id.clone()),
            ("Job Version", alloc.job_version.to_string()),
            ("Client Status", alloc.client_status.as_str().to_owned()),
            ("Client Description", alloc.client_description.clone()),
            ("Desired Status", word(&alloc.desired_status)),
            ("Desired Description", alloc.desired_description.clone()),
            ("Created", created),
            ("Modified", modified),
        ];
        if let Some(deployment) = alloc.deployment_id {
            all.push(("Deployment ID", id(deployment.to_string())));
        }
        if let Some(status) = &alloc.deployment_status {
            let health = match status.healthy {
                Some(true) => "healthy",
                Some(false) => "unhealthy",
                None => "unset",
            };
            all.push(("Deployment Health", health.to_owned()));
            if status.canary {
                all.push(("Canary", "true".to_owned()));
            }
        }
        for (name, other) in [
            ("Replacement Alloc ID", alloc.next_allocation),
            ("Previous Alloc ID", alloc.previous_allocation),
            ("Preempted by Alloc ID", alloc.preempted_by_allocation),
        ] {
            if let Some(other) = other {
                all.push((name, id(other.to_string())));
            }
        }
        if !alloc.preempted_allocations.is_empty() {
            let ids = alloc.preempted_allocations.iter();
            let ids: Vec<String> = ids.map(|other| id(other.to_string())).collect();
            all.push(("Preempted Alloc IDs", ids.join(", ")));
        }
        if let Some(followup) = alloc.followup_eval_id {
            all.push(("Follow-up Eval ID", id(followup.to_string())));
        }
        if let Some(tracker) = &alloc.reschedule_tracker {
            all.push(("Reschedule Attempts", tracker.events.len().to_string()));
        }
        pairs(&all)
    }

    fn addresses(&self, alloc: &Allocation) -> Option<String> {
        let shared = &alloc.allocated_resources.shared;
        if shared.ports.is_empty() {
            return None;
        }
        let is_dynamic = |label: &str| {
            let networks = shared.networks.iter();
            networks
                .flat_map(|network| &network.dynamic_ports)
                .any(|port| port.label == label)
        };
        let mut table = Columns::new(&["Label", "Dynamic", "Address"]);
        for port in &shared.ports {
            let host = match port.host_ip.contains(':') {
                true => format!("[{}]", port.host_ip),
                false => port.host_ip.clone(),
            };
            let inner = match port.to {
                0 => String::new(),
                to => format!(" -> {to}"),
            };
            table.row([
                format!("*{}", port.label),
                if is_dynamic(&port.label) { "yes" } else { "no" }.to_owned(),
                format!("{host}:{}{inner}", port.value),
            ]);
        }
        let mut modes = shared.networks.iter().map(|network| network.mode.as_str());
        let own = modes.find(|mode| !["", "host"].contains(mode));
        let title = match own {
            Some(mode) => format!("Allocation Addresses (mode = {mode:?}):"),
            None => "Allocation Addresses:".to_owned(),
        };
        let title = self.colour.bold(&title);
        Some(format!("{title}\n{}", table.render()))
    }

    fn task(&self, alloc: &Allocation, name: &str) -> String {
        let state = alloc.task_states.get(name);
        let word_of = state.map_or_else(|| "pending".to_owned(), |state| word(&state.state));
        let kind = match lifecycle(alloc, name).as_str() {
            "main" => String::new(),
            other => format!(" ({other})"),
        };
        let title = format!("Task {name:?}{kind} is {word_of:?}");
        let mut text = format!("{}\n{}", self.colour.bold(&title), resources(alloc, name));
        if let Some(state) = state {
            text.push('\n');
            text.push_str(&self.events(state));
        }
        text
    }

    fn events(&self, state: &TaskState) -> String {
        let finished = match state.state {
            TaskRunState::Dead => state.finished_at,
            TaskRunState::Pending | TaskRunState::Running => None,
        };
        let head = pairs(&[
            ("Started At", self.clock.date_of(state.started_at)),
            ("Finished At", self.clock.date_of(finished)),
            ("Total Restarts", state.restarts.to_string()),
            ("Last Restart", self.clock.date_of(state.last_restart)),
        ]);
        let mut table = Columns::new(&["Time", "Type", "Description"]);
        for event in state.events.iter().rev() {
            table.row([
                self.clock.date(event.time),
                word(&event.kind),
                description(event),
            ]);
        }
        format!("Task Events:\n{head}\nRecent Events:\n{}", table.render())
    }

    /// What its tasks use, of what `/v1/client/allocation/:id/stats` answers.
    pub(crate) fn stats(&self, stats: &Value) -> String {
        let mut table = Columns::new(&["Task", "CPU", "Memory", "RSS", "Swap"]);
        let tasks = stats["Tasks"].as_object().into_iter().flatten();
        for (name, task) in tasks {
            let (cpu, memory) = (
                &task["ResourceUsage"]["CpuStats"],
                &task["ResourceUsage"]["MemoryStats"],
            );
            let size = |key: &str| time::bytes(memory[key].as_u64().unwrap_or(0));
            let percent = cpu["Percent"].as_f64().unwrap_or(0.0);
            table.row([
                name.clone(),
                format!("{percent:.1} %"),
                size("Usage"),
                size("RSS"),
                size("Swap"),
            ]);
        }
        let title = self.colour.bold("Resource Usage");
        format!("\n{title}\n{}", table.render())
    }

    fn placement(&self, alloc: &Allocation) -> String {
        let metric = &alloc.metrics;
        let counts = pairs(&[
            ("Nodes Evaluated", metric.nodes_evaluated.to_string()),
            ("Nodes Filtered", metric.nodes_filtered.to_string()),
            ("Nodes Exhausted", metric.nodes_exhausted.to_string()),
            ("Allocation Time", format!("{:?}", metric.allocation_time)),
        ]);
        format!(
            "{}\n{counts}{}\n{}",
            self.colour.bold("Placement Metrics"),
            placement::explanation(metric, ""),
            placement::scores(metric, self.length)
        )
    }
}

fn resources(alloc: &Allocation, name: &str) -> String {
    let Some(task) = alloc.allocated_resources.tasks.get(name) else {
        return String::new();
    };
    let disk = alloc.allocated_resources.shared.disk_mb;
    let mut table = Columns::new(&["CPU", "Memory", "Disk"]);
    table.row([
        format!("{} MHz", task.cpu.cpu_shares),
        time::mebibytes(task.memory.memory_mb),
        time::mebibytes(disk),
    ]);
    let memory_max = match task.memory.memory_max_mb {
        0 => None,
        -1 => Some("Max: unlimited".to_owned()),
        most => Some(format!("Max: {}", time::mebibytes(most))),
    };
    if let Some(memory_max) = memory_max {
        table.row([" ".to_owned(), memory_max]);
    }
    format!("Task Resources:\n{}", table.render())
}

fn lifecycle(alloc: &Allocation, name: &str) -> String {
    let job = alloc.job.as_ref();
    let group = job.and_then(|job| job.task_group(&alloc.task_group));
    let task = group.and_then(|group| group.tasks.iter().find(|task| task.name == name));
    let Some(lifecycle) = task.and_then(|task| task.lifecycle.as_ref()) else {
        return "main".to_owned();
    };
    let side = if lifecycle.sidecar { " sidecar" } else { "" };
    format!("{}{side}", word(&lifecycle.hook))
}

/// What made each task fail that did: the last that says so.
pub(crate) fn failures(tasks: &BTreeMap<String, TaskState>) -> Vec<(&str, String)> {
    let says_so = |event: &&Arc<TaskEvent>| {
        matches!(
            event.kind,
            TaskEventKind::SetupFailure
                | TaskEventKind::DriverFailure
                | TaskEventKind::HookFailed
                | TaskEventKind::Terminated
        )
    };
    let failed = tasks.iter().filter(|(_, state)| state.failed);
    failed
        .filter_map(|(name, state)| {
            let event = state.events.iter().rev().find(says_so)?;
            let text = format!("{}: {}", word(&event.kind), description(event));
            Some((name.as_str(), text))
        })
        .collect()
}

/// An event's words; where it has none, its details.
fn description(event: &TaskEvent) -> String {
    if !event.display_message.is_empty() {
        return event.display_message.clone();
    }
    let details = event.details.iter();
    let words: Vec<String> = details
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    words.join(", ")
}
