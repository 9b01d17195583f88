//! The evaluations that a node's coming, going or changing causes: they are part of the same
//! command, so that no crash can fall between a node's transition and its consequences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol_model::{
    EvalId, EvalTrigger, Evaluation, Job, JobKey, JobType, Node, NodeId, UnixNanos,
};

use super::draft::Draft;

/// Jobs that one command asks the scheduler to look at: each job once, whatever the number of
/// nodes and allocations that ask for it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct WantedEvals {
    jobs: BTreeMap<JobKey, Wanted>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wanted {
    trigger: EvalTrigger,
    /// The node that caused it, where it is one.
    node: Option<NodeId>,
}

impl WantedEvals {
    /// Asks for `job`. The first reason stands; a second node makes it nobody's in particular.
    pub(super) fn want(&mut self, job: JobKey, trigger: EvalTrigger, node: NodeId) {
        let wanted = Wanted {
            trigger,
            node: Some(node),
        };
        let entry = self.jobs.entry(job).or_insert(wanted);
        if entry.node != Some(node) {
            entry.node = None;
        }
    }

    /// Asks for `job`, whatever the node.
    pub(super) fn want_job(&mut self, job: JobKey, trigger: EvalTrigger) {
        let wanted = Wanted {
            trigger,
            node: None,
        };
        self.jobs.entry(job).or_insert(wanted);
    }
}

/// Whether a job's datacenter pattern matches: `*` stands for any text, as in Nomad.
pub fn datacenter_matches(pattern: &str, datacenter: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = datacenter.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(offset) = rest.find(part) else {
            return false;
        };
        rest = &rest[offset + part.len()..];
    }
    rest.ends_with(last)
}

/// Whether a job could place on a node at all, by pool and datacenter.
pub fn covers(job: &Job, node: &Node) -> bool {
    let pool_fits = job.node_pool == "all" || job.node_pool == node.node_pool;
    pool_fits
        && job
            .datacenters
            .iter()
            .any(|pattern| datacenter_matches(pattern, &node.datacenter))
}

impl Draft {
    /// Wants every job that a node's transition concerns: those with allocations on it that have
    /// not ended, except sysbatch, and those that run on every node of its kind. (Nomad looks at
    /// jobs of ended ones, too: each result that is kept costs an evaluation then.)
    pub(super) fn want_node_evals(
        &self,
        wanted: &mut WantedEvals,
        node: &Node,
        trigger: EvalTrigger,
    ) {
        let placed: BTreeSet<JobKey> = self
            .tables
            .allocs_on_node(node.id)
            .filter(|alloc| !alloc.client_terminal())
            .map(|alloc| alloc.job_key())
            .collect();
        for key in placed {
            let job_type = self.tables.job(&key).map(|job| job.job_type);
            if job_type != Some(JobType::Sysbatch) {
                wanted.want(key, trigger, node.id);
            }
        }
        self.want_system_evals(wanted, node, trigger);
    }

    /// Wants the jobs that run on every node of this one's kind.
    pub(super) fn want_system_evals(
        &self,
        wanted: &mut WantedEvals,
        node: &Node,
        trigger: EvalTrigger,
    ) {
        for key in &self.tables.per_node_jobs {
            let Some(job) = self.tables.job(key) else {
                continue;
            };
            if !job.stop && covers(job, node) {
                wanted.want(key.clone(), trigger, node.id);
            }
        }
    }

    /// Wants those jobs that run on every node of this one's kind, have nothing on it, and may have
    /// been decided since `away_since`, when it could not be placed on.
    pub(super) fn want_missed_evals(
        &self,
        wanted: &mut WantedEvals,
        node: &Node,
        away_since: UnixNanos,
    ) {
        for key in &self.tables.per_node_jobs {
            let Some(job) = self.tables.job(key) else {
                continue;
            };
            let decided = || {
                self.tables
                    .evals_by_job(key)
                    .any(|eval| !eval.status.is_terminal() || eval.modify_time >= away_since)
            };
            let has_one = || {
                let mut on_node = self.tables.allocs_on_node(node.id);
                on_node.any(|alloc| {
                    !alloc.terminal() && alloc.job_id == key.id && alloc.namespace == key.namespace
                })
            };
            if !job.stop && covers(job, node) && !has_one() && decided() {
                wanted.want(key.clone(), EvalTrigger::NodeUpdate, node.id);
            }
        }
    }

    /// Makes the wanted evaluations, each a pending one of its job.
    pub(super) fn put_wanted_evals(&mut self, wanted: WantedEvals) -> Vec<EvalId> {
        let mut made = Vec::new();
        for (key, Wanted { trigger, node }) in wanted.jobs {
            let Some(job) = self.job_to_evaluate(&key) else {
                continue;
            };
            let id = self.draw_eval_id();
            let mut eval = Evaluation::new(id, &key, job.job_type, job.priority, trigger, self.now);
            eval.job_modify_index = job.job_modify_index;
            eval.node_id = node;
            eval.node_modify_index = node
                .and_then(|node| self.tables.node(node))
                .map_or(0, |record| record.node.modify_index);
            self.put_eval(eval);
            made.push(id);
        }
        made
    }

    /// The job itself, or, where it was forgotten, what one of its allocations runs: its remains
    /// have to be looked at too.
    fn job_to_evaluate(&self, key: &JobKey) -> Option<Arc<Job>> {
        if let Some(job) = self.tables.job(key) {
            return Some(job.clone());
        }
        let alloc = self.tables.allocs_by_job(key).next()?;
        self.tables.job_of_alloc(alloc)
    }
}

#[cfg(test)]
mod tests {
    use super::datacenter_matches;

    #[test]
    fn datacenters_are_matched_as_globs() {
        for (pattern, datacenter, matches) in [
            ("dc1", "dc1", true),
            ("dc1", "dc12", false),
            ("*", "", true),
            ("dc*", "dc12", true),
            ("*1", "dc12", false),
            ("eu-*-b", "eu-west-1-b", true),
            ("eu-*-b", "eu-b", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(
                datacenter_matches(pattern, datacenter),
                matches,
                "{pattern} {datacenter}"
            );
        }
    }
}
