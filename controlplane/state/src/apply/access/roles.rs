//! Roles.

use std::sync::Arc;

use super::{check_room, check_rows, outcome, without_repeats};
use crate::access::{ACL_ROLES_MAX, AclRole};
use crate::applied::{AccessRefusal, AccessRows, Outcome, Refusal, Signal};
use crate::apply::Draft;
use crate::command::AclRoles;

impl Draft {
    pub(super) fn acl_roles(&mut self, command: AclRoles) -> Result<Outcome, Refusal> {
        let changed = match command {
            AclRoles::Create { roles } => self.acl_roles_create(roles)?,
            AclRoles::Update { roles } => self.acl_roles_update(roles)?,
            AclRoles::Delete { ids } => self.acl_roles_delete(&ids)?,
        };
        if changed {
            self.signal(Signal::AclChanged);
        }
        Ok(outcome(changed))
    }

    fn acl_roles_create(&mut self, roles: Vec<AclRole>) -> Result<bool, AccessRefusal> {
        check_rows(&roles)?;
        let changed = !roles.is_empty();
        for (number, mut role) in roles.into_iter().enumerate() {
            if self.tables.acl_role(&role.id).is_some() {
                return Err(AccessRefusal::RoleExists(role.id));
            }
            let count = self.tables.access.roles.len();
            check_room(AccessRows::Roles, count, ACL_ROLES_MAX)?;
            without_repeats(&mut role.policies);
            self.check_role(number, &role)?;
            self.check_policies(&role.policies)?;
            role.create_index = self.index;
            role.modify_index = self.index;
            self.tables.put_acl_role(role);
        }
        Ok(changed)
    }

    fn acl_roles_update(&mut self, roles: Vec<AclRole>) -> Result<bool, AccessRefusal> {
        check_rows(&roles)?;
        let mut changed = false;
        for (number, mut role) in roles.into_iter().enumerate() {
            let Some(before) = self.tables.acl_role(&role.id).map(Arc::clone) else {
                return Err(AccessRefusal::UnknownRole(role.id));
            };
            without_repeats(&mut role.policies);
            self.check_role(number, &role)?;
            // A link whose policy is gone may stay.
            let is_new = |policy: &&String| !before.policies.contains(*policy);
            let added: Vec<String> = role.policies.iter().filter(is_new).cloned().collect();
            self.check_policies(&added)?;
            role.create_index = before.create_index;
            role.modify_index = before.modify_index;
            if role == *before {
                continue;
            }
            role.modify_index = self.index;
            self.tables.put_acl_role(role);
            changed = true;
        }
        Ok(changed)
    }

    fn check_role(&self, number: usize, role: &AclRole) -> Result<(), AccessRefusal> {
        if let Some(fault) = role.fault() {
            return Err(AccessRefusal::InvalidRole { number, fault });
        }
        match self.tables.acl_role_by_name(&role.name) {
            Some(other) if other.id != role.id => {
                Err(AccessRefusal::RoleNameTaken(role.name.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_policies(&self, names: &[String]) -> Result<(), AccessRefusal> {
        let mut names = names.iter();
        match names.find(|name| self.tables.acl_policy(name).is_none()) {
            Some(name) => Err(AccessRefusal::UnknownPolicy(name.clone())),
            None => Ok(()),
        }
    }

    fn acl_roles_delete(&mut self, ids: &[String]) -> Result<bool, AccessRefusal> {
        check_rows(ids)?;
        for id in ids {
            if self.tables.acl_role(id).is_none() {
                return Err(AccessRefusal::RoleNotFound(id.clone()));
            }
            self.tables.remove_acl_role(id);
        }
        Ok(!ids.is_empty())
    }
}
