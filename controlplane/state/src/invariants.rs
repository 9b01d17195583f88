//! What must hold of every state. Tests and the simulator ask after every command; a server does
//! not, since a full recount of a large cluster is seconds of work.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use protocol_model::{NodeStatus, SpecHash};

use crate::apply::job_status;
use crate::columns::{NodeColumns, NodeRow};
use crate::fit::Exhausted;
use crate::record::{JobTally, SessionEpoch};
use crate::tables::{Table, Tables};
use crate::usage::Usage;

/// Something that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which rule is broken.
    pub rule: Rule,
    /// By what.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.detail)
    }
}

/// The rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// A secondary index is what a scan of its table finds.
    SecondaryIndex,
    /// A job's counters are what a recount finds.
    JobTally,
    /// A specification is there exactly as long as something refers to it.
    SpecReferences,
    /// The node columns are what a recomputation finds.
    NodeColumns,
    /// Nothing was placed beyond what its node has.
    OverCommitment,
    /// A job's status follows from its allocations and evaluations.
    JobStatus,
    /// A node's status and session agree.
    NodeSession,
    /// Indexes of rows never go back, and are not ahead of the log.
    RowIndexes,
    /// A deployment's counters agree with its allocations.
    DeploymentCounters,
}

/// Everything that does not hold of `tables`.
pub fn check(tables: &Tables) -> Vec<Violation> {
    let mut found = Found {
        violations: Vec::new(),
    };
    secondary_indexes(tables, &mut found);
    tallies(tables, &mut found);
    spec_references(tables, &mut found);
    columns(tables, &mut found);
    over_commitment(tables, &mut found);
    job_statuses(tables, &mut found);
    node_sessions(tables, &mut found);
    row_indexes(tables, &mut found);
    deployment_counters(tables, &mut found);
    found.violations
}

/// The first difference between two states, in words: what replicas and restored states are
/// compared by.
pub fn difference(left: &Tables, right: &Tables) -> Option<&'static str> {
    let rows = |tables: &Tables| resolved_rows(&tables.columns);
    let specs = |tables: &Tables| -> BTreeMap<SpecHash, u64> {
        tables
            .specs
            .iter()
            .map(|(hash, spec)| (*hash, spec.references))
            .collect()
    };
    let checks: [(&'static str, bool); 17] = [
        ("index", left.index == right.index),
        ("log offset", left.log_offset == right.log_offset),
        ("time", left.now == right.now),
        (
            "pending restore",
            left.pending_restore == right.pending_restore,
        ),
        ("table indexes", left.table_indexes == right.table_indexes),
        ("cluster", left.cluster == right.cluster),
        (
            "scheduler configuration",
            left.scheduler_config == right.scheduler_config,
        ),
        ("nodes", left.nodes == right.nodes),
        ("jobs", left.jobs == right.jobs),
        ("job versions", left.job_versions == right.job_versions),
        ("evaluations", left.evals == right.evals),
        ("allocations", left.allocs == right.allocs),
        ("deployments", left.deployments == right.deployments),
        ("namespaces", left.namespaces == right.namespaces),
        ("access tokens", left.acl_tokens == right.acl_tokens),
        ("specifications", specs(left) == specs(right)),
        ("node columns", rows(left) == rows(right)),
    ];
    checks
        .into_iter()
        .find(|(_, same)| !same)
        .map(|(name, _)| name)
}

struct Found {
    violations: Vec<Violation>,
}

impl Found {
    fn unless(&mut self, holds: bool, rule: Rule, detail: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(Violation {
                rule,
                detail: detail(),
            });
        }
    }
}

fn index_of<K: Ord + Clone, V: Ord + Clone>(
    pairs: impl Iterator<Item = (K, V)>,
) -> OrdMap<K, OrdSet<V>> {
    let mut index: OrdMap<K, OrdSet<V>> = OrdMap::new();
    for (key, value) in pairs {
        index.entry(key).or_default().insert(value);
    }
    index
}

fn secondary_indexes(tables: &Tables, found: &mut Found) {
    let allocs = || tables.allocs();
    let mut same = |name: &'static str, same: bool| {
        found.unless(same, Rule::SecondaryIndex, || name.to_owned());
    };
    let by_job = index_of(allocs().map(|alloc| (alloc.job_key(), alloc.id)));
    same("allocations by job", by_job == tables.allocs_by_job);
    let by_node = index_of(allocs().map(|alloc| (alloc.node_id, alloc.id)));
    same("allocations by node", by_node == tables.allocs_by_node);
    let by_eval = index_of(allocs().map(|alloc| (alloc.eval_id, alloc.id)));
    same(
        "allocations by evaluation",
        by_eval == tables.allocs_by_eval,
    );
    let by_deployment =
        index_of(allocs().filter_map(|alloc| alloc.deployment_id.map(|id| (id, alloc.id))));
    same(
        "allocations by deployment",
        by_deployment == tables.allocs_by_deployment,
    );
    let evals = index_of(tables.evals().map(|eval| (eval.job_key(), eval.id)));
    same("evaluations by job", evals == tables.evals_by_job);
    let deployments = index_of(tables.deployments().map(|one| (one.job_key(), one.id)));
    same(
        "deployments by job",
        deployments == tables.deployments_by_job,
    );
    let per_node: OrdSet<_> = tables
        .jobs()
        .filter(|(_, job)| job.job_type.is_per_node())
        .map(|(key, _)| key.clone())
        .collect();
    same(
        "jobs that run on every node",
        per_node == tables.per_node_jobs,
    );
}

fn tallies(tables: &Tables, found: &mut Found) {
    let mut recount: BTreeMap<_, JobTally> = BTreeMap::new();
    for alloc in tables.allocs() {
        let tally = recount.entry(alloc.job_key()).or_default();
        tally.allocs += 1;
        tally.allocs_live += u64::from(!alloc.terminal());
        let group = tally.groups.entry(alloc.task_group.clone()).or_default();
        *group.counter(alloc.client_status) += 1;
    }
    for eval in tables.evals() {
        let tally = recount.entry(eval.job_key()).or_default();
        tally.evals += 1;
        tally.evals_live += u64::from(!eval.status.is_terminal());
    }
    let stored: BTreeMap<_, JobTally> = tables
        .tallies
        .iter()
        .map(|(key, tally)| (key.clone(), JobTally::clone(tally)))
        .collect();
    found.unless(stored == recount, Rule::JobTally, || {
        let differs = |key: &&_| stored.get(*key) != recount.get(*key);
        let key = stored.keys().chain(recount.keys()).find(differs);
        format!("{key:?}")
    });
}

fn spec_references(tables: &Tables, found: &mut Found) {
    let mut recount: BTreeMap<SpecHash, u64> = BTreeMap::new();
    let of_versions = tables
        .job_versions
        .values()
        .flat_map(|versions| versions.values());
    let references = tables
        .allocs()
        .map(|alloc| alloc.spec)
        .chain(of_versions.map(|record| record.spec))
        .chain(tables.deployments.values().filter_map(|record| record.spec));
    for spec in references {
        *recount.entry(spec).or_default() += 1;
    }
    let stored: BTreeMap<SpecHash, u64> = tables
        .specs
        .iter()
        .map(|(hash, spec)| (*hash, spec.references))
        .collect();
    found.unless(stored == recount, Rule::SpecReferences, || {
        let differs = |hash: &&_| stored.get(*hash) != recount.get(*hash);
        format!("{:?}", stored.keys().chain(recount.keys()).find(differs))
    });
}

type ResolvedRow = (NodeRow, [Arc<str>; 3]);

/// Rows without what depends on history: slots and the numbers of names.
fn resolved_rows(columns: &NodeColumns) -> BTreeMap<protocol_model::NodeId, ResolvedRow> {
    columns
        .rows()
        .map(|(_, row)| {
            let names = [row.class, row.datacenter, row.pool].map(|name| columns.name(name));
            let mut row = row.clone();
            (row.class, row.datacenter, row.pool) = Default::default();
            (row.node, (row, names))
        })
        .collect()
}

fn columns(tables: &Tables, found: &mut Found) {
    let mut recomputed = NodeColumns::default();
    for record in tables.nodes() {
        recomputed.put_node(&record.node, || tables.usage_of_node(record.node.id));
    }
    let stored = resolved_rows(&tables.columns);
    let recomputed = resolved_rows(&recomputed);
    found.unless(stored == recomputed, Rule::NodeColumns, || {
        let differs = |node: &&_| stored.get(*node) != recomputed.get(*node);
        match stored.keys().chain(recomputed.keys()).find(differs) {
            Some(node) => format!("{:?} against {:?}", stored.get(node), recomputed.get(node)),
            None => String::new(),
        }
    });
}

/// A node's facts may shrink under its allocations; a placement after that would be ours.
fn over_commitment(tables: &Tables, found: &mut Found) {
    for record in tables.nodes() {
        let id = record.node.id;
        let placed_since = tables
            .allocs_on_node(id)
            .any(|alloc| !alloc.terminal() && alloc.create_index > record.facts_index);
        let Some(row) = tables.columns.row(id) else {
            continue;
        };
        if !placed_since {
            continue;
        }
        let beyond = crate::fit::fits(&row.capacity, &Usage::default(), &row.used);
        found.unless(beyond.is_ok(), Rule::OverCommitment, || {
            format!("node {id}: {:?}", beyond.err().unwrap_or(Exhausted::Cpu))
        });
    }
}

fn job_statuses(tables: &Tables, found: &mut Found) {
    for (key, job) in tables.jobs() {
        let derived = job_status(job, tables.job_tally(key));
        found.unless(job.status == derived, Rule::JobStatus, || {
            format!("job {key} is {}, should be {derived}", job.status)
        });
        let spec = tables.job_spec(key);
        let newest = tables.job_versions(key).next();
        let same = newest.is_some_and(|newest| newest.version == job.version)
            && spec.is_some_and(|spec| tables.spec(spec).is_some());
        found.unless(same, Rule::JobStatus, || {
            format!("job {key}: newest version is missing")
        });
    }
}

fn node_sessions(tables: &Tables, found: &mut Found) {
    for record in tables.nodes() {
        let node = &record.node;
        let session = &record.session;
        let in_session = session.epoch != SessionEpoch::NONE;
        let synced = session.synced_index != 0;
        let agrees = match node.status {
            NodeStatus::Ready => in_session && synced && node.last_missed_heartbeat_index == 0,
            NodeStatus::Initializing => !synced,
            NodeStatus::Disconnected | NodeStatus::Down => node.last_missed_heartbeat_index != 0,
        };
        found.unless(agrees, Rule::NodeSession, || {
            format!(
                "node {}: {} with {session:?}",
                node.id,
                node.status.as_str()
            )
        });
    }
}

fn row_indexes(tables: &Tables, found: &mut Found) {
    let index = tables.index;
    for alloc in tables.allocs() {
        let ordered = alloc.create_index <= alloc.alloc_modify_index
            && alloc.alloc_modify_index <= alloc.modify_index
            && alloc.modify_index <= index
            && alloc.create_index > 0;
        found.unless(ordered, Rule::RowIndexes, || {
            format!("allocation {}", alloc.id)
        });
        found.unless(alloc.job.is_none(), Rule::RowIndexes, || {
            format!("allocation {} carries its job", alloc.id)
        });
    }
    for eval in tables.evals() {
        let ordered = eval.create_index > 0
            && eval.create_index <= eval.modify_index
            && eval.modify_index <= index;
        found.unless(ordered, Rule::RowIndexes, || {
            format!("evaluation {}", eval.id)
        });
    }
    for table in Table::ALL {
        found.unless(
            tables.table_index(&[table]) <= index,
            Rule::RowIndexes,
            || format!("table {table:?}"),
        );
    }
}

fn deployment_counters(tables: &Tables, found: &mut Found) {
    for deployment in tables.deployments() {
        for (name, group) in &deployment.task_groups {
            let members = tables
                .allocs_by_deployment(deployment.id)
                .filter(|alloc| alloc.task_group == *name)
                .count();
            let judged = u64::from(group.healthy_allocs) + u64::from(group.unhealthy_allocs);
            let adds_up = u64::from(group.placed_allocs) >= members as u64
                && judged <= u64::from(group.placed_allocs);
            found.unless(adds_up, Rule::DeploymentCounters, || {
                format!("deployment {} group {name}", deployment.id)
            });
        }
    }
}
