//! The policies that changed lately, in steps from one state that was seen to the next.
//!
//! ```text
//!  index 40 ──[web]──► 52 ──[ops, web]──► 60     did one of "db", "ops" change from 52 to 60? yes
//! ```

use std::collections::VecDeque;

use controlplane_state::{KeptPolicies, Snapshot, Table};

/// Steps that are kept. A caller that asks less often has its rights found anew.
const STEPS_MAX: usize = 64;
/// Names of one step: beyond it most callers are concerned, and nothing is remembered.
const NAMES_MAX: usize = 256;

#[derive(Debug)]
struct Step {
    from: u64,
    to: u64,
    /// Written or deleted between the two.
    names: Vec<String>,
}

/// See the top of this file.
#[derive(Debug, Default)]
pub(super) struct PolicyChanges {
    /// Each begins at the index at which the one before ends.
    steps: VecDeque<Step>,
    newest: Option<(u64, KeptPolicies)>,
}

impl PolicyChanges {
    /// Takes the policies of a state, unless they are older than those that were taken last.
    pub(super) fn take(&mut self, snapshot: &Snapshot) {
        let to = snapshot.table_index(&[Table::AclPolicies]);
        match &self.newest {
            Some((from, _)) if *from >= to => return,
            Some((from, earlier)) => {
                let later = snapshot.kept_policies();
                let names = earlier.changed_names(&later).take(NAMES_MAX + 1);
                let names: Vec<String> = names.map(str::to_owned).collect();
                if names.len() > NAMES_MAX {
                    self.steps.clear();
                } else {
                    let from = *from;
                    self.steps.push_back(Step { from, to, names });
                }
            }
            None => {}
        }
        if self.steps.len() > STEPS_MAX {
            self.steps.pop_front();
        }
        self.newest = Some((to, snapshot.kept_policies()));
    }

    /// Whether a policy that `concerns` may have changed between the policies of two indexes; where
    /// that is not remembered, it may.
    pub(super) fn touch(&self, from: u64, to: u64, concerns: impl Fn(&str) -> bool) -> bool {
        let mut at = from;
        let steps = self.steps.iter().skip_while(|step| step.from != from);
        for step in steps {
            if at == to {
                break;
            }
            if step.names.iter().any(|name| concerns(name)) {
                return true;
            }
            at = step.to;
        }
        at != to
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::command::AclPolicies;
    use controlplane_state::{AclPolicy, State};

    use super::*;
    use crate::access::in_state::InState;

    /// A policy is written for each name, each by an entry of its own, and each state is taken.
    fn taken(changes: &mut PolicyChanges, cluster: &mut InState, names: &[&str]) {
        for name in names {
            cluster.write_policy(name, "");
            changes.take(&cluster.snapshot());
        }
    }

    fn index(cluster: &InState) -> u64 {
        cluster.snapshot().table_index(&[Table::AclPolicies])
    }

    #[test]
    fn change_touches_those_it_names_between_the_two_indexes_alone() {
        let (mut changes, mut cluster) = (PolicyChanges::default(), InState::new());
        taken(&mut changes, &mut cluster, &["a", "b"]);
        let before = index(&cluster);
        taken(&mut changes, &mut cluster, &["c", "d"]);
        let after = index(&cluster);
        for (name, expected) in [("a", false), ("c", true), ("d", true)] {
            let touched = changes.touch(before, after, |it| it == name);
            assert_eq!(touched, expected, "{name}");
        }
        assert!(!changes.touch(after, after, |_| true));
        cluster.delete_policy("a");
        changes.take(&cluster.snapshot());
        assert!(changes.touch(after, index(&cluster), |it| it == "a"));
        assert!(!changes.touch(after, index(&cluster), |it| it == "c"));
    }

    #[test]
    fn steps_that_are_not_remembered_may_touch_anything() {
        let (mut changes, mut cluster) = (PolicyChanges::default(), InState::new());
        taken(&mut changes, &mut cluster, &["a"]);
        let first = index(&cluster);
        cluster.write_policy("b", "");
        let unseen = index(&cluster);
        for number in 0..=STEPS_MAX {
            taken(&mut changes, &mut cluster, &[&format!("c{number}")]);
        }
        let last = index(&cluster);
        assert!(changes.touch(first, last, |_| false), "forgotten");
        assert!(changes.touch(unseen, last, |_| false), "never seen");
        assert!(changes.touch(last, first, |_| false), "backwards");
        assert!(changes.touch(last, last + 1, |_| false), "not seen yet");
        assert_eq!(changes.steps.len(), STEPS_MAX);
    }

    #[test]
    fn many_changes_at_once_are_not_remembered() {
        let (mut changes, mut cluster) = (PolicyChanges::default(), InState::new());
        taken(&mut changes, &mut cluster, &["a"]);
        let before = index(&cluster);
        let policy = |number| AclPolicy {
            name: format!("p{number}"),
            ..AclPolicy::default()
        };
        let policies = (0..=NAMES_MAX).map(policy).collect();
        cluster.apply(AclPolicies::Upsert { policies }.into());
        changes.take(&cluster.snapshot());
        assert!(changes.touch(before, index(&cluster), |_| false));
        let unused = State::new().snapshot();
        changes.take(&unused);
        assert!(!changes.touch(index(&cluster), index(&cluster), |_| true));
    }
}
