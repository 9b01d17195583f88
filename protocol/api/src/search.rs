//! Search.

use std::collections::BTreeMap;

use protocol_model::nullable::{self, or_default};
use serde::{Deserialize, Serialize};

use crate::operation::operations;

operations! {
    /// find ids by their beginning
    Search {} (SearchRequest) -> Matches = put("/v1/search");
}

/// The body of [`Search`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SearchRequest {
    /// How the ids begin.
    #[serde(deserialize_with = "or_default")]
    pub prefix: String,
    /// The kind of object, `all` for every kind.
    #[serde(deserialize_with = "or_default")]
    pub context: String,
}

/// The answer of [`Search`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Matches {
    /// Ids by kind of object; kinds without one are left out.
    #[serde(deserialize_with = "nullable::deserialize")]
    pub matches: BTreeMap<String, Vec<String>>,
    /// Whether there are more, by kind of object.
    #[serde(deserialize_with = "nullable::deserialize")]
    pub truncations: BTreeMap<String, bool>,
    pub index: u64,
}
