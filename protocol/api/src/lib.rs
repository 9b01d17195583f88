//! Every operation of the HTTP API, declared once.
//!
//! ```text
//! operations! { ReadJob { id } -> Job = get("/v1/job/{id...}", READ_JOB); .. }
//!        |                         |
//!        |                         +-- a type: client.call(ReadJob { id })
//!        +-- Endpoint: method, path, parameters, body, answer, need, source
//!               +-- server: routing, 403, 404, 405, 501, bodies      find()
//!               +-- hack/fuzz: what bodies are read with             Body::Json { read }
//!               +-- docs/http-api.md: the table of routes            document::table()
//!               +-- /v1/openapi.json                                 document::openapi()
//! ```
//!
//! A new operation is a line in the file of its object, and a handler in the server. What Nomad has
//! and this release does not is declared too ([`absent`]).

mod document;
mod endpoint;
mod meter;
mod needs;
mod operation;
mod parameters;
mod table;
mod template;
mod written;

pub mod absent;
pub mod acl;
pub mod agent;
pub mod allocations;
pub mod client;
pub mod deployments;
pub mod evaluations;
pub mod jobs;
pub mod keyring;
pub mod namespaces;
pub mod node_pools;
pub mod nodes;
pub mod operator;
pub mod scaling;
pub mod search;
pub mod variables;

pub use document::{openapi, table};
pub use endpoint::{Body, Endpoint, Kind, Method, Parameter, ReadBody, Source, Support};
pub use meter::{Charge, Class};
pub use operation::Operation;
pub use table::{Found, NotFound, find};
pub use template::Parameters;
pub use written::Written;

/// The declarations, object by object, in the order of the documentation.
const DECLARED: &[&[Endpoint]] = &[
    jobs::ALL,
    allocations::ALL,
    client::ALL,
    evaluations::ALL,
    deployments::ALL,
    nodes::ALL,
    node_pools::ALL,
    namespaces::ALL,
    variables::ALL,
    scaling::ALL,
    search::ALL,
    agent::ALL,
    operator::ALL,
    keyring::ALL,
    acl::ALL,
    absent::ALL,
];

/// Every operation, absent ones included.
pub fn endpoints() -> impl Iterator<Item = &'static Endpoint> {
    DECLARED.iter().copied().flatten()
}
