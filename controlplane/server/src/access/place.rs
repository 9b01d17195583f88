//! The place of a request's object: its namespace, found in a snapshot.

use controlplane_state::Snapshot;
use protocol_access::need::{Area, Place, Scope};

/// The namespace of an object, kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FoundArea {
    /// This one.
    One(String),
    /// All, or one that only the handler finds.
    Any,
    /// No object has the id.
    Missing,
}

/// The object of a request, as far as rights depend on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FoundPlace {
    pub(crate) area: FoundArea,
    /// The path's `name`; the path of a variable.
    pub(crate) name: Option<String>,
}

impl FoundPlace {
    /// The place of the object with this id in the table that `scope` names.
    pub(crate) fn by_id(scope: Scope, id: &str, snapshot: &Snapshot) -> Self {
        let namespace = match scope {
            Scope::Alloc => {
                let alloc = id.parse().ok().and_then(|id| snapshot.alloc(id));
                alloc.map(|it| it.namespace.clone())
            }
            Scope::Evaluation => {
                let eval = id.parse().ok().and_then(|id| snapshot.eval(id));
                eval.map(|it| it.namespace.clone())
            }
            Scope::Deployment => {
                let deployment = id.parse().ok().and_then(|id| snapshot.deployment(id));
                deployment.map(|it| it.namespace.clone())
            }
            Scope::Query | Scope::Path | Scope::Handler => None,
        };
        Self {
            area: namespace.map_or(FoundArea::Missing, FoundArea::One),
            name: None,
        }
    }

    /// The namespace that the query names; `*` is all.
    pub(crate) fn of_query(namespace: &str) -> Self {
        let area = match namespace {
            "*" => FoundArea::Any,
            one => FoundArea::One(one.to_owned()),
        };
        Self { area, name: None }
    }

    /// A variable; the namespace `*` is all.
    pub(crate) fn of_variable(namespace: &str, path: &str) -> Self {
        Self {
            name: Some(path.to_owned()),
            ..Self::of_query(namespace)
        }
    }

    /// The object that the path's `name` is.
    pub(crate) fn of_name(name: &str) -> Self {
        Self {
            area: FoundArea::Any,
            name: Some(name.to_owned()),
        }
    }

    /// An object that only the handler finds.
    pub(crate) fn of_handler() -> Self {
        Self {
            area: FoundArea::Any,
            name: None,
        }
    }

    /// Whether no object has the id.
    pub(crate) fn is_missing(&self) -> bool {
        self.area == FoundArea::Missing
    }

    /// The same, borrowed.
    pub(crate) fn place(&self) -> Place<'_> {
        Place {
            area: match &self.area {
                FoundArea::One(namespace) => Area::One(namespace),
                FoundArea::Any => Area::Any,
                FoundArea::Missing => Area::Missing,
            },
            name: self.name.as_deref(),
        }
    }
}
