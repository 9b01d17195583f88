//! The caller of a request, as a server sees it.

use protocol_model::UnixNanos;
use protocol_model::nullable;
use protocol_model::rfc3339;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::token::RoleLink;

/// The answer of [`super::ReadWhoAmI`]. It never holds a secret.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct WhoAmI {
    /// `open` (access control is off), `anonymous`, `token` or `workload`.
    pub kind: String,
    /// The caller's token.
    pub token: Option<WhoAmIToken>,
    /// The claims of a workload's token.
    pub claims: Option<Value>,
    /// The address that the request came from.
    pub address: String,
    /// The way that the request took.
    pub via: Via,
    /// Why the credential was refused; empty where it was not.
    pub rejected: String,
    /// The rest of the caller's budgets; `null` where nothing is limited.
    pub budgets: Option<Budgets>,
}

/// A token, without its secret.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct WhoAmIToken {
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    pub name: String,
    /// `client` or `management`.
    #[serde(rename = "Type")]
    pub kind: String,
    #[serde(with = "nullable")]
    pub policies: Vec<String>,
    #[serde(with = "nullable")]
    pub roles: Vec<RoleLink>,
    pub global: bool,
    #[serde(with = "rfc3339")]
    pub expiration_time: Option<UnixNanos>,
}

/// The way of a request; what it did not pass is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Via {
    /// The server that answers, by name.
    pub server: String,
    /// The node that forwarded it.
    pub node: String,
    /// The allocation whose socket it came through.
    pub alloc: String,
    /// Its task.
    pub task: String,
}

/// Budgets, by class.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Budgets {
    /// Reads of one object.
    pub read: Option<BudgetLeft>,
    /// Lists.
    pub list: Option<BudgetLeft>,
    /// Writes.
    pub write: Option<BudgetLeft>,
    /// Queries that wait.
    pub waiting: Option<BudgetLeft>,
    /// Streams.
    pub streams: Option<BudgetLeft>,
}

/// A budget. It is `null` in [`Budgets`] where the class has no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BudgetLeft {
    /// Requests a second, or places.
    pub limit: u64,
    /// Requests that are served at once, or places that are free.
    pub left: u64,
}
