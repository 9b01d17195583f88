//! Nodes: the list, and one with what it offers and runs.

use protocol_model::{Allocation, ClientStatus, LastDrain, Node, NodeListStub};
use serde_json::Value;

use super::columns::{Columns, pairs};
use super::{time, word};
use crate::find::{Length, shown};
use crate::output::Colour;
use crate::session::Clock;

/// All nodes; `running` are the counts of their allocations, in the same order. Which system each
/// runs is shown where the answer says it.
pub(crate) fn list(nodes: &[NodeListStub], running: Option<&[usize]>, length: Length) -> String {
    if nodes.is_empty() {
        return "No nodes registered".to_owned();
    }
    let mut heading = vec!["ID", "Node Pool", "DC", "Name", "Class"];
    if length == Length::Whole {
        heading.extend(["Address", "Version"]);
    }
    let systems = nodes.iter().any(|node| node.attributes.is_some());
    if systems {
        heading.push("OS");
    }
    heading.extend(["Drain", "Eligibility", "Status"]);
    if running.is_some() {
        heading.push("Running Allocs");
    }
    let mut table = Columns::new(&heading);
    for (position, node) in nodes.iter().enumerate() {
        let mut cells = vec![
            shown(&node.id.to_string(), length),
            node.node_pool.clone(),
            node.datacenter.clone(),
            node.name.clone(),
            node.node_class.clone(),
        ];
        if length == Length::Whole {
            cells.extend([node.address.clone(), node.version.clone()]);
        }
        if systems {
            cells.push(system(node));
        }
        cells.extend([
            node.drain.to_string(),
            word(&node.scheduling_eligibility),
            node.status.as_str().to_owned(),
        ]);
        if let Some(counts) = running {
            cells.push(counts.get(position).copied().unwrap_or(0).to_string());
        }
        table.row(cells);
    }
    table.render()
}

/// Whether a node drains, and until when.
pub(crate) fn drain(node: &Node, clock: &Clock) -> String {
    let Some(strategy) = &node.drain_strategy else {
        return node.drain.to_string();
    };
    let until = match strategy.force_deadline {
        _ if strategy.deadline < 0 => "force drain".to_owned(),
        Some(at) => format!("{} deadline", clock.date(at)),
        None => "no deadline".to_owned(),
    };
    let system = match strategy.ignore_system_jobs {
        true => "; ignoring system jobs",
        false => "",
    };
    format!("true; {until}{system}")
}

/// The system that a node runs: `debian 12`.
fn system(node: &NodeListStub) -> String {
    let attributes = node.attributes.iter().flatten();
    let named = |wanted: &str| {
        let mut found = attributes.clone().filter(|(name, _)| *name == wanted);
        found.next().map(|(_, value)| value.as_str())
    };
    let words = [named("os.name"), named("os.version")];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Whether an allocation occupies its node.
pub(crate) fn runs(alloc: &Allocation) -> bool {
    alloc.client_status == ClientStatus::Running
}

/// How a node is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'c> {
    pub(crate) length: Length,
    pub(crate) colour: Colour,
    pub(crate) clock: &'c Clock,
}

impl View<'_> {
    /// One node.
    pub(crate) fn one(&self, node: &Node, allocs: &[Allocation], show_allocs: bool) -> String {
        let mut text = self.head(node);
        let mut section = |title: &str, body: String| {
            text.push_str(&format!("\n{}\n{body}", self.colour.bold(title)));
        };
        section("Driver Status", drivers(node));
        if let Some(last) = &node.last_drain {
            section("Last Drain", self.last_drain(last));
        }
        if !node.events.is_empty() {
            section("Node Events", self.events(node));
        }
        section("Allocated Resources", allocated(node, allocs));
        if show_allocs {
            section("Allocations", self.allocations(allocs));
        }
        if self.length == Length::Whole {
            section("Attributes", map(&node.attributes));
            section("Meta", map(&node.meta));
        }
        text
    }

    /// What runs there although the cluster does not know it.
    pub(crate) fn foreign(&self, table: &str) -> String {
        let title = self.colour.bold("Allocations Unknown Since a Restore");
        format!(
            "\n{title}\n{table}They run on until `drover operator node release-foreign` ends them.\n"
        )
    }

    fn head(&self, node: &Node) -> String {
        let healthy: Vec<&str> = node
            .drivers
            .iter()
            .filter(|(_, driver)| driver.detected && driver.healthy)
            .map(|(name, _)| name.as_str())
            .collect();
        pairs(&[
            ("ID", node.id.to_string()),
            ("Name", node.name.clone()),
            ("Node Pool", node.node_pool.clone()),
            ("Class", node.node_class.clone()),
            ("DC", node.datacenter.clone()),
            ("Drain", drain(node, self.clock)),
            ("Eligibility", word(&node.scheduling_eligibility)),
            ("Status", node.status.as_str().to_owned()),
            ("Status Description", node.status_description.clone()),
            (
                "Host Volumes",
                node.host_volumes
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(","),
            ),
            ("Drivers", healthy.join(",")),
        ])
    }

    fn last_drain(&self, last: &LastDrain) -> String {
        let meta = last
            .meta
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let mut lines = vec![
            ("Status", last.status.as_str().to_owned()),
            ("Started At", self.clock.date(last.started_at)),
            ("Updated At", self.clock.date(last.updated_at)),
        ];
        if !last.accessor_id.is_empty() {
            lines.push(("Accessor ID", last.accessor_id.clone()));
        }
        if !last.meta.is_empty() {
            lines.push(("Meta", meta.collect::<Vec<_>>().join(", ")));
        }
        pairs(&lines)
    }

    fn events(&self, node: &Node) -> String {
        let mut table = Columns::new(&["Time", "Subsystem", "Message"]);
        for event in node.events.iter().rev() {
            table.row([
                self.clock.date(event.timestamp),
                event.subsystem.clone(),
                event.message.clone(),
            ]);
        }
        table.render()
    }

    fn allocations(&self, allocs: &[Allocation]) -> String {
        if allocs.is_empty() {
            return "No allocations placed\n".to_owned();
        }
        let mut table = Columns::new(&[
            "ID",
            "Job ID",
            "Task Group",
            "Version",
            "Desired",
            "Status",
            "Created",
            "Modified",
        ]);
        let mut newest: Vec<&Allocation> = allocs.iter().collect();
        newest.sort_by_key(|alloc| std::cmp::Reverse((alloc.create_index, alloc.id)));
        for alloc in newest {
            table.row([
                shown(&alloc.id.to_string(), self.length),
                alloc.job_id.clone(),
                alloc.task_group.clone(),
                alloc.job_version.to_string(),
                word(&alloc.desired_status),
                alloc.client_status.as_str().to_owned(),
                self.clock.past(alloc.create_time, self.length),
                self.clock.past(alloc.modify_time, self.length),
            ]);
        }
        table.render()
    }

    /// What the host measures: its numbers by name, as it sends them.
    pub(crate) fn stats(&self, stats: &Value) -> String {
        let mut lines = Vec::new();
        numbers(stats, "", &mut lines);
        let lines: Vec<(&str, String)> = lines
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        format!("\n{}\n{}", self.colour.bold("Host Stats"), pairs(&lines))
    }
}

/// Every number of a document, named by its path.
fn numbers(value: &Value, path: &str, lines: &mut Vec<(String, String)>) {
    let inner = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                numbers(value, &inner(name), lines);
            }
        }
        Value::Array(values) => {
            for (position, value) in values.iter().enumerate() {
                numbers(value, &inner(&position.to_string()), lines);
            }
        }
        Value::Number(number) => lines.push((path.to_owned(), number.to_string())),
        Value::String(text) => lines.push((path.to_owned(), text.clone())),
        Value::Null | Value::Bool(_) => {}
    }
}

fn drivers(node: &Node) -> String {
    let mut table = Columns::new(&["Driver", "Detected", "Healthy", "Message"]);
    for (name, driver) in &node.drivers {
        table.row([
            name.clone(),
            driver.detected.to_string(),
            driver.healthy.to_string(),
            driver.health_description.clone(),
        ]);
    }
    table.render()
}

/// What is promised to allocations, of what the node has to give.
fn allocated(node: &Node, allocs: &[Allocation]) -> String {
    let (mut cpu, mut memory, mut disk) = (0, 0, 0);
    for alloc in allocs.iter().filter(|alloc| !alloc.client_terminal()) {
        let resources = &alloc.allocated_resources;
        cpu += resources
            .tasks
            .values()
            .map(|task| task.cpu.cpu_shares)
            .sum::<i64>();
        memory += resources
            .tasks
            .values()
            .map(|task| task.memory.memory_mb)
            .sum::<i64>();
        disk += resources.shared.disk_mb;
    }
    let (whole, reserved) = (&node.node_resources, &node.reserved_resources);
    let mut table = Columns::new(&["CPU", "Memory", "Disk"]);
    table.row([
        format!(
            "{cpu}/{} MHz",
            whole.cpu.cpu_shares - reserved.cpu.cpu_shares
        ),
        of(memory, whole.memory.memory_mb - reserved.memory.memory_mb),
        of(disk, whole.disk.disk_mb - reserved.disk.disk_mb),
    ]);
    table.render()
}

fn of(used: i64, whole: i64) -> String {
    format!("{}/{}", time::mebibytes(used), time::mebibytes(whole))
}

fn map(map: &std::collections::BTreeMap<String, String>) -> String {
    let lines: Vec<(&str, String)> = map
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    pairs(&lines)
}
