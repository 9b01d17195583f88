//! The rights that a route asks of its caller, as data, and the verdict on them.
//!
//! ```text
//!  endpoint ── Need ──┐
//!  object ──── Place ─┼─► Need::judge ──► Granted | Denied (403) | Hidden (404)
//!  caller ──── Acl ───┘
//! ```

use std::fmt;

use crate::acl::Acl;
use crate::capability::{
    Level, NamespaceCapability, NodePoolCapability, OperatorCapability, VariableCapability,
};
use crate::requirement::Requirement;

/// Sets of capabilities in one namespace: all of one set are enough.
pub type Alternatives = &'static [&'static [NamespaceCapability]];

/// The rights that a route asks of its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// None, and a credential that is not valid is ignored: callers need these routes to get a
    /// valid one, or to find a fault.
    Public,
    /// None. A credential that is not valid is refused all the same.
    Nothing,
    /// None: the answer holds the objects that the caller may see.
    Shown,
    /// A valid token. The answer holds the caller's own objects; management sees all.
    Token,
    /// A management token.
    Management,
    /// One of the alternatives in the object's namespace.
    Namespace(Scope, Alternatives),
    /// Any capability in the namespace that the path names.
    SomeOfNamespace,
    /// A capability on a node pool.
    NodePool(Scope, NodePoolCapability),
    /// A capability on the variable that the path's `path` names.
    Variable(Scope, VariableCapability),
    /// A level on nodes.
    Node(Level),
    /// A level on agents.
    Agent(Level),
    /// A level on the routes of operators.
    OperatorLevel(Level),
    /// A capability of operators.
    Operator(OperatorCapability),
    /// All of these.
    All(&'static [Self]),
    /// One of these.
    Any(&'static [Self]),
}

/// The place that names the namespace, or the pool, of a request's object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// `?namespace=`; in a list `*` stands for all.
    Query,
    /// The allocation of the path's id.
    Alloc,
    /// The evaluation of the path's id.
    Evaluation,
    /// The deployment of the path's id.
    Deployment,
    /// The path's `name`.
    Path,
    /// The body, or an object that only the handler finds: it judges the need again once it knows.
    /// Before, the need holds if it holds anywhere.
    Handler,
}

impl Scope {
    /// Whether the object is found by an id that says nothing about its namespace.
    pub const fn is_by_id(self) -> bool {
        matches!(self, Self::Alloc | Self::Evaluation | Self::Deployment)
    }
}

/// The namespace of a request's object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area<'a> {
    /// This one.
    One(&'a str),
    /// A list of all (`?namespace=*`), or a namespace that only the handler finds.
    Any,
    /// No object has the id.
    Missing,
}

/// The object of a request, as far as rights depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place<'a> {
    /// Its namespace.
    pub area: Area<'a>,
    /// The path's `name`: a namespace, or a node pool; the path of a variable. `None` where only
    /// the handler finds it.
    pub name: Option<&'a str>,
}

/// The answer to a need.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// The caller has the rights.
    Granted,
    /// The caller may not know that the object exists: 404.
    Hidden,
    /// The caller lacks a right: 403.
    Denied,
}

impl Verdict {
    fn of(holds: bool) -> Self {
        if holds { Self::Granted } else { Self::Denied }
    }
}

impl Need {
    /// Whether the answer is the same for callers without a credential.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Public | Self::Nothing | Self::Shown)
    }

    /// The place that names the namespace of the object.
    pub fn scope(&self) -> Option<Scope> {
        match self {
            Self::Namespace(scope, _) | Self::NodePool(scope, _) | Self::Variable(scope, _) => {
                Some(*scope)
            }
            Self::All(needs) | Self::Any(needs) => needs.iter().find_map(Self::scope),
            _ => None,
        }
    }

    /// Whether a caller with these rights, and a valid credential or none, is served.
    ///
    /// A denied object is hidden (404) from a caller who may read other namespaces, and refused
    /// (403) to one who may read the object or nothing at all.
    pub fn judge(&self, acl: &Acl, place: &Place<'_>) -> Verdict {
        match self {
            Self::Public | Self::Nothing | Self::Shown | Self::Token => Verdict::Granted,
            Self::Management => Verdict::of(acl.is_management()),
            Self::Namespace(scope, any) => namespaced(acl, *scope, any, place.area),
            Self::SomeOfNamespace => {
                Verdict::of(place.name.is_some_and(|name| acl.namespace_some(name)))
            }
            Self::NodePool(_, capability) => match place.name {
                Some(name) => Verdict::of(acl.node_pool(name, *capability)),
                None => Verdict::of(acl.in_some_node_pool(*capability)),
            },
            Self::Variable(_, capability) => match (place.area, place.name) {
                (Area::One(namespace), Some(path)) => {
                    Verdict::of(acl.variable(namespace, path, *capability))
                }
                _ => Verdict::of(acl.in_some_variable(*capability)),
            },
            Self::Node(level) => Verdict::of(acl.node(*level)),
            Self::Agent(level) => Verdict::of(acl.agent(*level)),
            Self::OperatorLevel(level) => Verdict::of(acl.operator_level(*level)),
            Self::Operator(capability) => Verdict::of(acl.operator(*capability)),
            Self::All(needs) => {
                let verdicts = needs.iter().map(|need| need.judge(acl, place));
                verdicts.max().unwrap_or(Verdict::Granted)
            }
            Self::Any(needs) => {
                let verdicts = needs.iter().map(|need| need.judge(acl, place));
                verdicts.min().unwrap_or(Verdict::Denied)
            }
        }
    }

    /// The rights that a write needs at this place: another server judges them again. A choice
    /// among needs, which no write has, becomes management.
    pub fn requirements(&self, place: &Place<'_>) -> Vec<Requirement> {
        match self {
            Self::Public | Self::Nothing | Self::Shown | Self::Token => Vec::new(),
            Self::Namespace(_, any) => match place.area {
                Area::One(namespace) => vec![Requirement::Namespace {
                    namespace: namespace.to_owned(),
                    any: any.iter().map(|all| all.to_vec()).collect(),
                }],
                Area::Any | Area::Missing => vec![Requirement::Management],
            },
            Self::NodePool(_, capability) => match place.name {
                Some(name) => vec![Requirement::NodePool {
                    node_pool: name.to_owned(),
                    capability: *capability,
                }],
                None => vec![Requirement::Management],
            },
            Self::Variable(_, capability) => match (place.area, place.name) {
                (Area::One(namespace), Some(path)) => vec![Requirement::Variable {
                    namespace: namespace.to_owned(),
                    path: path.to_owned(),
                    capability: *capability,
                }],
                _ => vec![Requirement::Management],
            },
            Self::Node(level) => vec![Requirement::Node(*level)],
            Self::Agent(level) => vec![Requirement::Agent(*level)],
            Self::OperatorLevel(level) => vec![Requirement::OperatorLevel(*level)],
            Self::Operator(capability) => vec![Requirement::Operator(*capability)],
            Self::All(needs) => {
                let each = needs.iter().flat_map(|need| need.requirements(place));
                each.collect()
            }
            Self::Management | Self::SomeOfNamespace | Self::Any(_) => {
                vec![Requirement::Management]
            }
        }
    }

    /// Whether the objects of `namespace` are shown in the answer of a list.
    pub fn shows(&self, acl: &Acl, namespace: &str) -> bool {
        let place = Place {
            area: Area::One(namespace),
            name: None,
        };
        match self {
            Self::Namespace(..) | Self::All(_) => self.judge(acl, &place) == Verdict::Granted,
            Self::NodePool(..) => acl.namespace(namespace, NamespaceCapability::ListJobs),
            _ => acl.namespace(namespace, NamespaceCapability::ReadJob),
        }
    }
}

fn namespaced(acl: &Acl, scope: Scope, any: Alternatives, area: Area<'_>) -> Verdict {
    let somewhere = |capability: &NamespaceCapability| acl.in_some_namespace(*capability);
    let reads_some = || acl.in_some_namespace(NamespaceCapability::ReadJob);
    let namespace = match area {
        Area::One(namespace) => namespace,
        Area::Any => return Verdict::of(any.iter().any(|all| all.iter().all(somewhere))),
        Area::Missing => {
            let some = any.iter().any(|all| all.iter().all(somewhere));
            return Verdict::of(some || reads_some());
        }
    };
    let here = |capability: &NamespaceCapability| acl.namespace(namespace, *capability);
    if any.iter().any(|all| all.iter().all(here)) {
        return Verdict::Granted;
    }
    let readable = acl.namespace(namespace, NamespaceCapability::ReadJob);
    if scope.is_by_id() && !readable && reads_some() {
        return Verdict::Hidden;
    }
    Verdict::Denied
}

/// The need in words, for documents: `submit-job` or `register-job`.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public | Self::Nothing => f.write_str("none"),
            Self::Shown => f.write_str("none: shows what the caller may see"),
            Self::Token => f.write_str("a token"),
            Self::Management => f.write_str("management"),
            Self::Namespace(_, any) => {
                let sets = any.iter().map(|all| {
                    let names: Vec<&str> = all.iter().map(|it| it.name()).collect();
                    names.join(" with ")
                });
                f.write_str(&sets.collect::<Vec<_>>().join(" or "))
            }
            Self::SomeOfNamespace => f.write_str("any capability in the namespace"),
            Self::NodePool(_, capability) => write!(f, "node_pool {capability}"),
            Self::Variable(_, capability) => write!(f, "variables {capability}"),
            Self::Node(level) => write!(f, "node {}", level.name()),
            Self::Agent(level) => write!(f, "agent {}", level.name()),
            Self::OperatorLevel(level) => write!(f, "operator {}", level.name()),
            Self::Operator(capability) => write!(f, "operator {capability}"),
            Self::All(needs) => f.write_str(&joined(needs, " and ")),
            Self::Any(needs) => f.write_str(&joined(needs, " or ")),
        }
    }
}

fn joined(needs: &[Need], by: &str) -> String {
    let texts: Vec<String> = needs.iter().map(ToString::to_string).collect();
    texts.join(by)
}
