//! `/v1/search/fuzzy`: objects by a part of their name, over several kinds of object.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::{Namespace, NodePool, Snapshot, Table};
use protocol_access::{Acl, Level, NodePoolCapability};
use protocol_api::search::{FuzzyMatch, FuzzyMatches, FuzzySearch, FuzzySearchRequest};
use protocol_model::{Allocation, Job, Task};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::query::Namespaces;
use super::route::{Routes, routes};
use super::search;

/// Matches per kind; the answer tells whether there are more.
const MATCHES_MAX: usize = 100;
/// The shortest text, in characters.
const TEXT_LEN_MIN: usize = 2;
/// Only so many allocations are searched, the newest.
const ALLOCS_MAX: usize = 10_000;

const JOBS: &str = "jobs";
const GROUPS: &str = "groups";
const SERVICES: &str = "services";
const TASKS: &str = "tasks";
const IMAGES: &str = "images";
const COMMANDS: &str = "commands";
const CLASSES: &str = "classes";
/// The kinds that are read from jobs.
const OF_JOBS: [&str; 7] = [JOBS, GROUPS, SERVICES, TASKS, IMAGES, COMMANDS, CLASSES];

const ALLOCS: &str = "allocs";
const NODES: &str = "nodes";
const NAMESPACES: &str = "namespaces";
/// The kinds that jobs have no part in.
const OTHERS: [&str; 5] = [
    ALLOCS,
    NODES,
    search::NODE_POOLS,
    NAMESPACES,
    search::VARIABLES,
];

const TABLES: [Table; 8] = [
    Table::Jobs,
    Table::Evals,
    Table::Allocs,
    Table::Nodes,
    Table::NodePools,
    Table::Deployments,
    Table::Namespaces,
    Table::Variables,
];

pub(super) const ROUTES: Routes = routes![FuzzySearch => fuzzy];

async fn fuzzy(ask: &mut Ask) -> Answered {
    let request: FuzzySearchRequest = ask.json()?;
    let text = request.text.to_lowercase();
    let length = text.chars().count();
    if length < TEXT_LEN_MIN {
        return Err(HttpError::bad_request(format!(
            "fuzzy search query must be at least {TEXT_LEN_MIN} characters, got {length}"
        )));
    }
    let kinds = kinds(&request.context)?;
    if request.allow_stale {
        ask.query.allow_stale();
    }
    let snapshot = ask.snapshot(&TABLES).await?;
    let index = snapshot.table_index(&TABLES);
    let mut found = Found::new(text, kinds);
    let namespaces = ask.namespaces();
    for (key, job) in snapshot.jobs() {
        if namespaces.contains(&key.namespace) {
            found.add_job(job);
        }
    }
    found.add_allocs(&snapshot, namespaces);
    found.add_cluster(&snapshot, &ask.acl());
    for key in search::variables(&snapshot, "", namespaces) {
        found.add(search::VARIABLES, &key.path, &[&key.namespace, &key.path]);
    }
    let mut answer = found.answer(index);
    if request.context.is_empty() || request.context == "all" {
        add_ids(&mut answer, &snapshot, &request.text, namespaces);
    }
    ask.answer(&answer, index)
}

/// The kinds that a context names.
fn kinds(context: &str) -> Result<Vec<&'static str>, HttpError> {
    let all = || OF_JOBS.into_iter().chain(OTHERS);
    match context {
        "" | "all" => Ok(all().collect()),
        JOBS => Ok(OF_JOBS.to_vec()),
        name => {
            let known = all().find(|kind| *kind == name);
            let names: Vec<&str> = all().collect();
            let known = known.ok_or_else(|| {
                HttpError::bad_request(format!(
                    "context must be one of {names:?} or \"all\", not {name:?}"
                ))
            })?;
            Ok(vec![known])
        }
    }
}

/// Adds evaluations and deployments, which have no names: by how their ids begin.
fn add_ids(
    answer: &mut FuzzyMatches,
    snapshot: &Snapshot,
    prefix: &str,
    namespaces: Namespaces<'_>,
) {
    for kind in [search::EVALS, search::DEPLOYMENTS] {
        let mut ids = search::find(snapshot, kind, prefix, namespaces);
        let is_truncated = ids.len() > search::MATCHES_MAX;
        ids.truncate(search::MATCHES_MAX);
        answer.truncations.insert(kind.to_owned(), is_truncated);
        if !ids.is_empty() {
            let found = ids.into_iter().map(|id| FuzzyMatch {
                id,
                scope: Vec::new(),
            });
            answer.matches.insert(kind.to_owned(), found.collect());
        }
    }
}

/// The best matches of each kind.
struct Found {
    /// In lower case.
    text: String,
    kinds: BTreeMap<&'static str, Best>,
}

/// The best matches of one kind, each with the place of the text in its name.
#[derive(Default)]
struct Best {
    matches: Vec<(usize, FuzzyMatch)>,
    is_truncated: bool,
}

impl Best {
    /// Keeps the best. Called from time to time, so that many matches need little memory.
    fn shorten(&mut self) {
        self.matches.sort_unstable();
        self.is_truncated |= self.matches.len() > MATCHES_MAX;
        self.matches.truncate(MATCHES_MAX);
    }
}

impl Found {
    fn new(text: String, kinds: Vec<&'static str>) -> Self {
        let kinds = kinds.into_iter().map(|kind| (kind, Best::default()));
        Self {
            text,
            kinds: kinds.collect(),
        }
    }

    fn add(&mut self, kind: &str, name: &str, scope: &[&str]) {
        let Some(best) = self.kinds.get_mut(kind) else {
            return;
        };
        let Some(at) = name.to_lowercase().find(&self.text) else {
            return;
        };
        let found = FuzzyMatch {
            id: name.to_owned(),
            scope: scope.iter().map(|part| (*part).to_owned()).collect(),
        };
        best.matches.push((at, found));
        if best.matches.len() > 2 * MATCHES_MAX {
            best.shorten();
        }
    }

    fn add_job(&mut self, job: &Job) {
        let scope = [job.namespace.as_str(), &job.id];
        self.add(JOBS, &job.name, &scope);
        for group in &job.task_groups {
            self.add(GROUPS, &group.name, &scope);
            let scope = [scope[0], scope[1], &group.name];
            for service in &group.services {
                self.add(SERVICES, &service.name, &scope);
            }
            for task in &group.tasks {
                self.add_task(task, scope);
            }
        }
    }

    fn add_task(&mut self, task: &Task, group: [&str; 3]) {
        self.add(TASKS, &task.name, &group);
        let scope = [group[0], group[1], group[2], &task.name];
        for service in &task.services {
            self.add(SERVICES, &service.name, &scope);
        }
        for (kind, key) in [(IMAGES, "image"), (COMMANDS, "command"), (CLASSES, "class")] {
            let value = task.config.get(key).and_then(|value| value.as_str());
            self.add(kind, value.unwrap_or(""), &scope);
        }
    }

    fn add_allocs(&mut self, snapshot: &Snapshot, namespaces: Namespaces<'_>) {
        let Some(best) = self.kinds.get_mut(ALLOCS) else {
            return;
        };
        let own = |alloc: &&Arc<Allocation>| namespaces.contains(&alloc.namespace);
        let mut allocs: Vec<_> = snapshot.allocs().filter(own).collect();
        if allocs.len() > ALLOCS_MAX {
            best.is_truncated = true;
            allocs.select_nth_unstable_by_key(ALLOCS_MAX, |alloc| {
                (Reverse(alloc.create_index), alloc.id)
            });
            allocs.truncate(ALLOCS_MAX);
        }
        for alloc in allocs {
            let id = alloc.id.to_string();
            self.add(ALLOCS, &alloc.name, &[&alloc.namespace, &id]);
        }
    }

    /// Nodes, node pools, and namespaces.
    fn add_cluster(&mut self, snapshot: &Snapshot, acl: &Acl) {
        for record in snapshot.nodes().filter(|_| acl.node(Level::Read)) {
            let node = &record.node;
            self.add(NODES, &node.name, &[&node.id.to_string()]);
        }
        let seen = |pool: &&Arc<NodePool>| acl.node_pool(&pool.name, NodePoolCapability::Read);
        for pool in snapshot.node_pools().filter(seen) {
            self.add(search::NODE_POOLS, &pool.name, &[]);
        }
        let seen = |namespace: &&Arc<Namespace>| acl.namespace_some(&namespace.name);
        for namespace in snapshot.namespaces().filter(seen) {
            self.add(NAMESPACES, &namespace.name, &[]);
        }
    }

    fn answer(self, index: u64) -> FuzzyMatches {
        let mut answer = FuzzyMatches {
            index,
            ..FuzzyMatches::default()
        };
        for (kind, mut best) in self.kinds {
            best.shorten();
            let truncated = best.is_truncated;
            answer.truncations.insert(kind.to_owned(), truncated);
            if !best.matches.is_empty() {
                let matches = best.matches.into_iter().map(|(_, found)| found);
                answer.matches.insert(kind.to_owned(), matches.collect());
            }
        }
        answer
    }
}
