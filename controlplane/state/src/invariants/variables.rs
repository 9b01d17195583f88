//! Variables: what is derived from them, and what holds of their rows.

use imbl::{OrdMap, OrdSet};

use super::derived::is_index;
use super::{Found, Rule};
use crate::tables::{Tables, VariableTally};

pub(super) fn derived(tables: &Tables, found: &mut Found) {
    let variables = &tables.variables;
    let in_place = variables.rows.iter().all(|(key, row)| *key == row.key);
    let mut tallies: OrdMap<String, VariableTally> = OrdMap::new();
    let mut locked = OrdSet::new();
    for (key, variable) in &variables.rows {
        let tally = tallies.entry(key.namespace.clone()).or_default();
        tally.count += 1;
        tally.bytes += variable.size();
        if variable.lock.is_some() {
            locked.insert(key.clone());
        }
    }
    let by_key = is_index(&variables.by_root_key, variables.rows.len(), |key, name| {
        let row = variables.rows.get(name);
        row.is_some_and(|row| row.sealed.key == *key)
    });
    for (name, holds) in [
        ("variables by name", in_place),
        ("bytes of variables", tallies == variables.tallies),
        ("locked variables", locked == variables.locked),
        ("variables by root key", by_key),
    ] {
        found.unless(holds, Rule::SecondaryIndex, || name.to_owned());
    }
}

pub(super) fn rows(tables: &Tables, found: &mut Found) {
    for (key, variable) in &tables.variables.rows {
        let known = tables.namespace(&key.namespace).is_some();
        found.unless(known, Rule::Variables, || {
            format!("the namespace of variable {key} is gone")
        });
        let opens = tables.root_key(variable.sealed.key).is_some();
        found.unless(opens, Rule::Variables, || {
            format!("the root key of variable {key} is gone")
        });
    }
}
