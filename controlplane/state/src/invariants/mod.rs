//! What must hold of every state. Tests and the simulator ask after every command; a server does
//! not, since a full recount of a large cluster is seconds of work.

mod access;
#[cfg(test)]
mod access_tests;
mod derived;
mod difference;
mod rows;
#[cfg(test)]
mod tests;
mod variables;

use std::fmt;

use crate::tables::Tables;
pub use difference::difference;

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
    /// The children of a template and their tokens are what a recount finds.
    Children,
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
    /// A node that drains has a strategy, takes no allocations, and its last drain is under way.
    NodeDrain,
    /// The built-in pools are there, and the pool of every node.
    NodePools,
    /// One default auth method and one active root key at most; binding rules have their method,
    /// sealed values their root key.
    Access,
    /// The namespace and the root key of every variable are there.
    Variables,
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
    derived::secondary_indexes(tables, &mut found);
    access::indexes(tables, &mut found);
    derived::tallies(tables, &mut found);
    derived::live_by_key(tables, &mut found);
    derived::children(tables, &mut found);
    derived::spec_references(tables, &mut found);
    derived::columns(tables, &mut found);
    rows::over_commitment(tables, &mut found);
    rows::job_statuses(tables, &mut found);
    rows::node_sessions(tables, &mut found);
    rows::node_drains(tables, &mut found);
    rows::node_pools(tables, &mut found);
    access::rows(tables, &mut found);
    variables::derived(tables, &mut found);
    variables::rows(tables, &mut found);
    rows::row_indexes(tables, &mut found);
    rows::deployment_counters(tables, &mut found);
    found.violations
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
