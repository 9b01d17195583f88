//! What parses but is not honoured by this release yet, and what is honoured and hardly meant.
//! Users hear of each such block when they validate, plan or register: never silence.
//!
//! `rows.rs` is the whole list of the former. Whoever makes a block work deletes its row.

mod identities;
mod probes;
mod references;
mod rows;

use serde::{Deserialize, Serialize};

use crate::group::TaskGroup;
use crate::job::Job;
use crate::task::Task;
use crate::validate::periodic;
use rows::ROWS;

pub use probes::KNOWN_DRIVERS;

/// A block of a job that is stored but has no effect, or one that nobody may have meant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Warning {
    /// Where: `group "web" > service`; a job's own blocks stand alone.
    pub path: String,
    /// The block and what does not happen, for operators.
    pub message: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.rsplit_once(" > ") {
            Some((place, _)) => write!(f, "{place} > {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Job {
    /// Names each block that this release stores without doing what it says, or whose effect may
    /// surprise, and each `${...}` that nothing replaces, in the order of the job; each place once,
    /// however often the block stands there.
    /// Meant for canonical jobs.
    pub fn unhonoured(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for row in ROWS {
            if let Probe::Job(present) = row.probe
                && present(self)
            {
                warnings.push(row.warning("", row.block));
            }
        }
        warnings.extend(disabled_schedule(self));
        let mut search = references::Search::new();
        search.job(self, &mut warnings);
        for group in &self.task_groups {
            unhonoured_group(self, group, &mut search, &mut warnings);
        }
        warnings
    }
}

/// The mistakes of a schedule that is disabled: validation does not refuse them.
fn disabled_schedule(job: &Job) -> Vec<Warning> {
    let disabled = job.periodic.as_ref().filter(|it| !it.is_enabled());
    let mistakes = disabled.map_or_else(Vec::new, periodic::mistakes);
    let warn = |mistake: periodic::Mistake| {
        let periodic::Mistake {
            segment, message, ..
        } = mistake;
        let (path, place) = match segment {
            "" => ("periodic".to_owned(), "periodic: ".to_owned()),
            segment => (format!("periodic > {segment}"), format!("{segment}: ")),
        };
        let message = format!("{place}{message}; it is refused once enabled is true");
        Warning { path, message }
    };
    mistakes.into_iter().map(warn).collect()
}

fn unhonoured_group(
    job: &Job,
    group: &TaskGroup,
    search: &mut references::Search,
    warnings: &mut Vec<Warning>,
) {
    let place = format!("group {:?} > ", group.name);
    for row in ROWS {
        let block = match row.probe {
            Probe::Job(_) | Probe::Task(_) | Probe::NamedTask(_) => None,
            Probe::Group(present) => present(group).then(|| row.block.to_owned()),
            Probe::GroupOf(present) => present(job, group).then(|| row.block.to_owned()),
            Probe::NamedGroup(name) => name(group).map(|name| format!("{} {name:?}", row.block)),
        };
        warnings.extend(block.map(|block| row.warning(&place, &block)));
    }
    let replaces = group.replaces_on_disconnect();
    let nobody_left = group.stop_on_client_after().is_some() && !replaces;
    let nobody_comes =
        group.disconnect_window().is_some() && replaces && group.is_never_rescheduled();
    let together = [(nobody_left, NOBODY_LEFT), (nobody_comes, NOBODY_COMES)];
    for (_, words) in together.into_iter().filter(|(so, _)| *so) {
        warnings.push(Warning {
            path: format!("{place}disconnect"),
            message: format!("disconnect: {words}"),
        });
    }
    search.group(group, &place, warnings);
    for task in &group.tasks {
        let place = format!("{place}task {:?} > ", task.name);
        for row in ROWS {
            let block = match row.probe {
                Probe::Job(_) | Probe::Group(_) | Probe::GroupOf(_) | Probe::NamedGroup(_) => None,
                Probe::Task(present) => present(task).then(|| row.block.to_owned()),
                Probe::NamedTask(name) => name(task).map(|name| format!("{} {name:?}", row.block)),
            };
            warnings.extend(block.map(|block| row.warning(&place, &block)));
        }
        identities::warn(task, &place, warnings);
        search.task((job, group, task), &place, warnings);
    }
}

/// Each is honoured, and together they leave nobody: `replace = false` means that something is
/// never started twice, and `stop_on_client_after` alone sees to that already.
const NOBODY_LEFT: &str = "the node stops the group after stop_on_client_after, and replace = false \
     forbids a replacement: nothing of the group runs until the node is back";

/// What takes the place of a silent one within its window is a rescheduled one (Nomad #16515).
const NOBODY_COMES: &str = "the allocation is not replaced until lost_after expires, because \
     rescheduling is off (attempts = 0, unlimited = false); set replace = false if that is intended";

/// How to see whether a block is there.
enum Probe {
    Job(fn(&Job) -> bool),
    Group(fn(&TaskGroup) -> bool),
    /// The same for blocks that mean something else in each type of job.
    GroupOf(fn(&Job, &TaskGroup) -> bool),
    /// The same for blocks whose name must be told.
    NamedGroup(fn(&TaskGroup) -> Option<&str>),
    Task(fn(&Task) -> bool),
    /// The same for blocks whose name must be told.
    NamedTask(fn(&Task) -> Option<&str>),
}

/// One block that is not honoured.
struct Row {
    block: &'static str,
    probe: Probe,
    /// What does not happen: follows "parsed and stored, but".
    effect: &'static str,
}

impl Row {
    fn warning(&self, place: &str, block: &str) -> Warning {
        let message = format!("{block}: parsed and stored, but {}", self.effect);
        Warning {
            path: format!("{place}{block}"),
            message,
        }
    }
}
