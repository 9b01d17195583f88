//! The names that an expression can see.

use crate::value::Value;
use std::collections::BTreeMap;

/// What happens to a root name that nothing defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// It stays as text, to be filled in on the node: `"${attr.kernel.name}"`.
    PassThrough,
    /// It is an error: variable files and defaults hold constants.
    Refuse,
}

/// Names that expressions can see, innermost first.
#[derive(Debug)]
pub(crate) struct Scope<'p> {
    parent: Option<&'p Self>,
    names: BTreeMap<String, Value>,
    pub(super) unknown: Unknown,
}

impl<'p> Scope<'p> {
    pub(crate) fn root(unknown: Unknown) -> Self {
        Self {
            parent: None,
            names: BTreeMap::new(),
            unknown,
        }
    }

    pub(crate) fn child(&'p self) -> Self {
        Self {
            parent: Some(self),
            names: BTreeMap::new(),
            unknown: self.unknown,
        }
    }

    pub(crate) fn define(&mut self, name: impl Into<String>, value: Value) {
        self.names.insert(name.into(), value);
    }

    /// The map that `name` is bound to in this very scope, made where absent; a scalar bound to
    /// that name is replaced.
    pub(crate) fn map_mut(&mut self, name: &str) -> &mut BTreeMap<String, Value> {
        let slot = self
            .names
            .entry(name.to_owned())
            .or_insert_with(|| Value::Map(BTreeMap::new()));
        if !matches!(slot, Value::Map(_)) {
            *slot = Value::Map(BTreeMap::new());
        }
        match slot {
            Value::Map(entries) => entries,
            _ => unreachable!("made a map above"),
        }
    }

    pub(super) fn lookup(&self, name: &str) -> Option<&Value> {
        let mut scope = Some(self);
        while let Some(current) = scope {
            if let Some(value) = current.names.get(name) {
                return Some(value);
            }
            scope = current.parent;
        }
        None
    }
}
