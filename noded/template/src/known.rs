//! The data that a template can read, and the names of the data that is missing.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The data that one rendering reads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Known {
    /// The task's environment, read by `env`.
    pub environment: BTreeMap<String, String>,
    /// Files by the path that the template gives, read by `file`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Variables that were looked up; `None`: there is none at that path.
    pub variables: BTreeMap<VariableId, Option<Variable>>,
    /// Lists of variables that were looked up, by prefix, in the order of their paths.
    pub variable_lists: BTreeMap<VariableId, Vec<Variable>>,
    /// Instances of services that were looked up.
    pub services: BTreeMap<ServiceQuery, Vec<Instance>>,
    /// The names of all services, by region, if they were looked up.
    pub registrations: BTreeMap<String, Vec<Registration>>,
    /// The namespace of the job: the default of variables.
    pub namespace: String,
    /// The region of the job: the default of variables and services.
    pub region: String,
    /// The time of the rendering, UTC.
    pub now: Time,
}

/// A moment: seconds since 1970 in UTC and nanoseconds of the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Time {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds of that second, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// The place of a variable; of a list, `path` is the prefix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VariableId {
    /// Its path: `nomad/jobs/web`.
    pub path: String,
    /// Its namespace.
    pub namespace: String,
    /// Its region.
    pub region: String,
}

impl fmt::Display for VariableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}.{}", self.path, self.namespace, self.region)
    }
}

/// A variable with its items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its path.
    pub path: String,
    /// Its namespace.
    pub namespace: String,
    /// Its items; empty in lists.
    pub items: BTreeMap<String, String>,
    /// The index that created it.
    pub create_index: u64,
    /// The index that changed it last.
    pub modify_index: u64,
}

/// One question for the instances of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServiceQuery {
    /// The service's name.
    pub name: String,
    /// The region it is looked for in.
    pub region: String,
    /// A selection of its instances.
    pub choice: Option<Choice>,
}

/// A selection of instances: the same key gives the same ones while they exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Choice {
    /// The number of instances.
    pub count: u32,
    /// The key, as a rule the allocation's id.
    pub key: String,
}

/// One registered instance of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// The registration's id.
    pub id: String,
    /// The service's name.
    pub name: String,
    /// The node's id.
    pub node: String,
    /// The node's datacenter.
    pub datacenter: String,
    /// The address to connect to.
    pub address: String,
    /// The port to connect to.
    pub port: u16,
    /// Its tags.
    pub tags: Vec<String>,
    /// The job's id.
    pub job_id: String,
    /// The allocation's id.
    pub alloc_id: String,
}

/// A service's name with the tags of all its instances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The service's name.
    pub name: String,
    /// The tags.
    pub tags: Vec<String>,
}

/// Data that a template needs and that is not known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Dependency {
    /// A file, by the path that the template gives.
    File(String),
    /// A variable that has to exist.
    Variable(VariableId),
    /// A variable whose existence is asked: its absence is an answer.
    VariableExistence(VariableId),
    /// The variables below a prefix.
    VariableList(VariableId),
    /// The instances of a service.
    Service(ServiceQuery),
    /// The names of all services of a region.
    Services(String),
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file({path})"),
            Self::Variable(id) => write!(f, "nomad.var.block({id})"),
            Self::VariableExistence(id) => write!(f, "nomad.var.get({id})"),
            Self::VariableList(id) => write!(f, "nomad.var.list({id})"),
            Self::Service(query) => write!(f, "nomad.service({}@{})", query.name, query.region),
            Self::Services(region) => write!(f, "nomad.services(@{region})"),
        }
    }
}
