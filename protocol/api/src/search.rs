//! Search.

use protocol_model::nullable::or_default;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::operation::operations;

operations! {
    /// find ids by their beginning
    Search {} (SearchRequest) -> Value = put("/v1/search");
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
