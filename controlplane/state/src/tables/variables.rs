//! The table of variables, what is derived from it, and the questions that can be asked of it.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::{Table, Tables, index_insert, index_remove};
use crate::variable::{Variable, VariableKey};

/// Variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct VariableTables {
    pub(crate) rows: OrdMap<VariableKey, Arc<Variable>>,

    // Derived.
    /// Of each namespace that has variables.
    pub(crate) tallies: OrdMap<String, VariableTally>,
    /// Variables with a lock, held or delayed.
    pub(crate) locked: OrdSet<VariableKey>,
    /// By the number of the root key that sealed them.
    pub(crate) by_root_key: OrdMap<u32, OrdSet<VariableKey>>,
}

/// The variables of one namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VariableTally {
    /// Their number.
    pub count: u64,
    /// Their sealed bytes.
    pub bytes: u64,
}

/// Changes.
impl Tables {
    pub(crate) fn put_variable(&mut self, variable: Variable) {
        self.touch(Table::Variables);
        self.put_variable_unseen(variable);
    }

    /// Puts a row whose change readers of the table do not see.
    pub(crate) fn put_variable_unseen(&mut self, variable: Variable) {
        self.forget_variable(&variable.key);
        let mut tally = self.variable_tally(&variable.key.namespace);
        tally.count += 1;
        tally.bytes += variable.size();
        let (tables, key) = (&mut self.variables, &variable.key);
        tables.tallies.insert(key.namespace.clone(), tally);
        if variable.lock.is_some() {
            tables.locked.insert(key.clone());
        }
        let sealed_with = variable.sealed.key;
        index_insert(&mut tables.by_root_key, &sealed_with, key.clone());
        tables.rows.insert(key.clone(), Arc::new(variable));
    }

    pub(crate) fn remove_variable(&mut self, key: &VariableKey) {
        if self.forget_variable(key) {
            self.touch(Table::Variables);
        }
    }

    fn forget_variable(&mut self, key: &VariableKey) -> bool {
        let Some(variable) = self.variables.rows.remove(key) else {
            return false;
        };
        let mut tally = self.variable_tally(&key.namespace);
        tally.count -= 1;
        tally.bytes -= variable.size();
        let tables = &mut self.variables;
        if tally.count == 0 {
            tables.tallies.remove(&key.namespace);
        } else {
            tables.tallies.insert(key.namespace.clone(), tally);
        }
        tables.locked.remove(key);
        index_remove(&mut tables.by_root_key, &variable.sealed.key, key);
        true
    }
}

/// Questions.
impl Tables {
    /// One variable.
    pub fn variable(&self, key: &VariableKey) -> Option<&Arc<Variable>> {
        self.variables.rows.get(key)
    }

    /// The variables from this name on, by namespace and path.
    pub fn variables_from(&self, first: VariableKey) -> impl Iterator<Item = &Arc<Variable>> + '_ {
        let rows = self.variables.rows.range(first..);
        rows.map(|(_, variable)| variable)
    }

    /// The variables of one namespace whose path begins with `prefix`, by path.
    pub fn variables_with_prefix<'a>(
        &'a self,
        namespace: &'a str,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Variable>> + 'a {
        let rows = self.variables_from(VariableKey::new(namespace, prefix));
        rows.take_while(move |variable| {
            variable.key.namespace == namespace && variable.key.path.starts_with(prefix)
        })
    }

    /// The number and sealed bytes of a namespace's variables.
    pub fn variable_tally(&self, namespace: &str) -> VariableTally {
        let tally = self.variables.tallies.get(namespace);
        tally.copied().unwrap_or_default()
    }

    /// The variables with a lock, held or delayed.
    pub fn locked_variables(&self) -> impl Iterator<Item = &Arc<Variable>> + '_ {
        let keys = self.variables.locked.iter();
        keys.filter_map(|key| self.variable(key))
    }

    /// The variables that a root key sealed, by name.
    pub fn variables_of_root_key(&self, number: u32) -> impl Iterator<Item = &Arc<Variable>> + '_ {
        let keys = self.variables.by_root_key.get(&number);
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| self.variable(key))
    }

    /// The number of variables that a root key sealed.
    pub fn count_variables_of_root_key(&self, number: u32) -> usize {
        let keys = self.variables.by_root_key.get(&number);
        keys.map_or(0, OrdSet::len)
    }
}
