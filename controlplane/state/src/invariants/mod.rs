//! What must hold of every state. Tests and the simulator ask after every command; a server does
//! not, since a full recount of a large cluster is seconds of work.

mod derived;
mod difference;
mod rows;

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
    derived::secondary_indexes(tables, &mut found);
    derived::tallies(tables, &mut found);
    derived::spec_references(tables, &mut found);
    derived::columns(tables, &mut found);
    rows::over_commitment(tables, &mut found);
    rows::job_statuses(tables, &mut found);
    rows::node_sessions(tables, &mut found);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protocol_model::{EvalId, EvalTrigger, Evaluation, JobKey, JobType, UnixNanos};

    use super::*;

    fn rules(tables: &Tables) -> Vec<Rule> {
        check(tables).iter().map(|found| found.rule).collect()
    }

    fn with_an_evaluation() -> (Tables, JobKey, EvalId) {
        let key = JobKey::new("default", "web");
        let id = EvalId::from_u128(1);
        let (trigger, now) = (EvalTrigger::JobRegister, UnixNanos(1));
        let mut eval = Evaluation::new(id, &key, JobType::Service, 50, trigger, now);
        (eval.create_index, eval.modify_index) = (3, 3);
        let mut tables = Tables {
            index: 3,
            ..Tables::default()
        };
        tables.put_eval(&Arc::new(eval));
        (tables, key, id)
    }

    #[test]
    fn what_is_derived_and_right_is_not_complained_of() {
        let (tables, ..) = with_an_evaluation();
        assert_eq!(check(&tables), []);
    }

    #[test]
    fn a_row_that_its_index_lacks_is_found() {
        let (mut tables, key, _) = with_an_evaluation();
        tables.evals_by_job.remove(&key);
        assert!(rules(&tables).contains(&Rule::SecondaryIndex));
    }

    #[test]
    fn an_index_that_names_a_row_under_another_key_or_one_that_is_not_there_is_found() {
        let (tables, key, id) = with_an_evaluation();
        let mut elsewhere = tables.clone();
        let ids = elsewhere.evals_by_job.remove(&key);
        let other = JobKey::new("default", "other");
        elsewhere.evals_by_job.extend(ids.map(|ids| (other, ids)));
        assert!(rules(&elsewhere).contains(&Rule::SecondaryIndex));

        let mut gone = tables.clone();
        gone.evals.remove(&id);
        assert!(rules(&gone).contains(&Rule::SecondaryIndex));
    }

    #[test]
    fn a_counter_that_is_wrong_missing_or_of_nothing_is_found() {
        let (tables, key, _) = with_an_evaluation();
        let mut wrong = tables.clone();
        wrong.tally(&key, |tally| tally.evals_live += 1);
        assert!(rules(&wrong).contains(&Rule::JobTally));

        let mut missing = tables.clone();
        missing.tallies.remove(&key);
        assert!(rules(&missing).contains(&Rule::JobTally));

        let mut of_nothing = tables.clone();
        let other = JobKey::new("default", "other");
        of_nothing.tallies.insert(other, Arc::default());
        assert_eq!(rules(&of_nothing), [Rule::JobTally]);
    }
}
