//! Policies.

use super::{check_room, check_rows, outcome};
use crate::access::{ACL_POLICIES_MAX, AclPolicy};
use crate::applied::{AccessRefusal, AccessRows, Outcome, Refusal, Signal};
use crate::apply::Draft;
use crate::command::AclPolicies;

impl Draft {
    pub(super) fn acl_policies(&mut self, command: AclPolicies) -> Result<Outcome, Refusal> {
        let changed = match command {
            AclPolicies::Upsert { policies } => self.acl_policies_upsert(policies)?,
            AclPolicies::Delete { names } => {
                check_rows(&names)?;
                let before = self.tables.access.policies.len();
                for name in &names {
                    self.tables.remove_acl_policy(name);
                }
                self.tables.access.policies.len() < before
            }
        };
        if changed {
            self.signal(Signal::AclChanged);
        }
        Ok(outcome(changed))
    }

    fn acl_policies_upsert(&mut self, policies: Vec<AclPolicy>) -> Result<bool, AccessRefusal> {
        check_rows(&policies)?;
        let mut changed = false;
        for (number, mut policy) in policies.into_iter().enumerate() {
            if let Some(fault) = policy.fault() {
                return Err(AccessRefusal::InvalidPolicy { number, fault });
            }
            match self.tables.acl_policy(&policy.name) {
                Some(before) => {
                    policy.create_index = before.create_index;
                    policy.modify_index = before.modify_index;
                    if **before == policy {
                        continue;
                    }
                }
                None => {
                    let count = self.tables.access.policies.len();
                    check_room(AccessRows::Policies, count, ACL_POLICIES_MAX)?;
                    policy.create_index = self.index;
                }
            }
            policy.modify_index = self.index;
            self.tables.put_acl_policy(policy);
            changed = true;
        }
        Ok(changed)
    }
}
