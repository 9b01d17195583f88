//! Auth methods and binding rules: how logins get tokens.

use std::sync::Arc;

use super::{check_room, check_rows, outcome};
use crate::access::{
    AUTH_METHODS_MAX, AclAuthMethod, AclBindingRule, BINDING_RULES_MAX, BindingRuleFault,
};
use crate::applied::{AccessRefusal, AccessRows, Outcome, Refusal};
use crate::apply::Draft;
use crate::command::{AclAuthMethods, AclBindingRules};

/// Auth methods.
impl Draft {
    pub(super) fn auth_methods(&mut self, command: AclAuthMethods) -> Result<Outcome, Refusal> {
        let changed = match command {
            AclAuthMethods::Upsert { methods } => self.auth_methods_upsert(methods)?,
            AclAuthMethods::Delete { names } => self.auth_methods_delete(&names)?,
        };
        Ok(outcome(changed))
    }

    fn auth_methods_upsert(&mut self, methods: Vec<AclAuthMethod>) -> Result<bool, AccessRefusal> {
        check_rows(&methods)?;
        let mut changed = false;
        for (number, mut method) in methods.into_iter().enumerate() {
            if let Some(fault) = method.fault() {
                return Err(AccessRefusal::InvalidAuthMethod { number, fault });
            }
            let default = self.tables.default_auth_method();
            if let Some(default) = default.filter(|it| method.default && it.name != method.name) {
                return Err(AccessRefusal::DefaultMethodExists(default.name.clone()));
            }
            let before = self.tables.auth_method(&method.name).map(Arc::clone);
            match &before {
                Some(before) => {
                    method.create_time = before.create_time;
                    method.modify_time = before.modify_time;
                    method.create_index = before.create_index;
                    method.modify_index = before.modify_index;
                    if **before == method {
                        continue;
                    }
                }
                None => {
                    let count = self.tables.access.auth_methods.len();
                    check_room(AccessRows::AuthMethods, count, AUTH_METHODS_MAX)?;
                    method.create_time = self.now;
                    method.create_index = self.index;
                }
            }
            // Secrets that stay as they are were counted when they came.
            let kept = before.and_then(|before| before.sealed.clone());
            let sealed = method.sealed.as_ref();
            self.take_sealed(sealed.filter(|sealed| kept.as_ref() != Some(sealed)))?;
            method.modify_time = self.now;
            method.modify_index = self.index;
            self.tables.put_auth_method(method);
            changed = true;
        }
        Ok(changed)
    }

    /// The rules go in the same entry: else they would bind the logins of whatever comes next under
    /// the name.
    fn auth_methods_delete(&mut self, names: &[String]) -> Result<bool, AccessRefusal> {
        check_rows(names)?;
        for name in names {
            if self.tables.auth_method(name).is_none() {
                return Err(AccessRefusal::AuthMethodNotFound(name.clone()));
            }
            let rules = self.tables.binding_rules_of(name);
            let ids: Vec<String> = rules.map(|rule| rule.id.clone()).collect();
            for id in ids {
                self.tables.remove_binding_rule(&id);
            }
            self.tables.remove_auth_method(name);
        }
        Ok(!names.is_empty())
    }
}

/// Binding rules.
impl Draft {
    pub(super) fn binding_rules(&mut self, command: AclBindingRules) -> Result<Outcome, Refusal> {
        let changed = match command {
            AclBindingRules::Create { rules } => self.binding_rules_create(rules)?,
            AclBindingRules::Update { rules } => self.binding_rules_update(rules)?,
            AclBindingRules::Delete { ids } => self.binding_rules_delete(&ids)?,
        };
        Ok(outcome(changed))
    }

    fn binding_rules_create(&mut self, rules: Vec<AclBindingRule>) -> Result<bool, AccessRefusal> {
        check_rows(&rules)?;
        let changed = !rules.is_empty();
        for (number, mut rule) in rules.into_iter().enumerate() {
            if self.tables.binding_rule(&rule.id).is_some() {
                return Err(AccessRefusal::BindingRuleExists(rule.id));
            }
            let count = self.tables.access.binding_rules.len();
            check_room(AccessRows::BindingRules, count, BINDING_RULES_MAX)?;
            self.check_rule(number, &rule)?;
            rule.create_time = self.now;
            rule.modify_time = self.now;
            rule.create_index = self.index;
            rule.modify_index = self.index;
            self.tables.put_binding_rule(rule);
        }
        Ok(changed)
    }

    fn binding_rules_update(&mut self, rules: Vec<AclBindingRule>) -> Result<bool, AccessRefusal> {
        check_rows(&rules)?;
        let mut changed = false;
        for (number, mut rule) in rules.into_iter().enumerate() {
            let Some(before) = self.tables.binding_rule(&rule.id) else {
                return Err(AccessRefusal::BindingRuleNotFound(rule.id));
            };
            rule.create_time = before.create_time;
            rule.modify_time = before.modify_time;
            rule.create_index = before.create_index;
            rule.modify_index = before.modify_index;
            if rule == **before {
                continue;
            }
            self.check_rule(number, &rule)?;
            rule.modify_time = self.now;
            rule.modify_index = self.index;
            self.tables.put_binding_rule(rule);
            changed = true;
        }
        Ok(changed)
    }

    fn check_rule(&self, number: usize, rule: &AclBindingRule) -> Result<(), AccessRefusal> {
        let fault = rule.fault().or_else(|| {
            let known = self.tables.auth_method(&rule.auth_method).is_some();
            let unknown = || BindingRuleFault::UnknownAuthMethod(rule.auth_method.clone());
            (!known).then(unknown)
        });
        match fault {
            Some(fault) => Err(AccessRefusal::InvalidBindingRule { number, fault }),
            None => Ok(()),
        }
    }

    fn binding_rules_delete(&mut self, ids: &[String]) -> Result<bool, AccessRefusal> {
        check_rows(ids)?;
        for id in ids {
            if self.tables.binding_rule(id).is_none() {
                return Err(AccessRefusal::BindingRuleNotFound(id.clone()));
            }
            self.tables.remove_binding_rule(id);
        }
        Ok(!ids.is_empty())
    }
}
