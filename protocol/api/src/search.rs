//! Search.

use std::collections::BTreeMap;

use protocol_model::nullable::{self, or_default};
use serde::{Deserialize, Serialize};

use crate::needs::SEARCH;
use crate::operation::operations;

operations! {
    /// find ids by their beginning
    Search {} (SearchRequest) -> Matches = put("/v1/search", SEARCH).of_state();
    /// find objects by a part of their name
    FuzzySearch {} (FuzzySearchRequest) -> FuzzyMatches = put("/v1/search/fuzzy", SEARCH).of_state();
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

/// The body of [`FuzzySearch`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct FuzzySearchRequest {
    /// A part of the name, in any case: at least 2 characters.
    #[serde(deserialize_with = "or_default")]
    pub text: String,
    /// The kind of object, `all` for every kind. `jobs` includes the parts of jobs.
    #[serde(deserialize_with = "or_default")]
    pub context: String,
    /// Whether a server may answer without asking the leader, as `?stale`.
    #[serde(deserialize_with = "or_default")]
    pub allow_stale: bool,
}

/// The answer of [`FuzzySearch`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct FuzzyMatches {
    /// Matches by kind of object; kinds without one are left out.
    #[serde(deserialize_with = "nullable::deserialize")]
    pub matches: BTreeMap<String, Vec<FuzzyMatch>>,
    /// Whether there are more, by kind of object.
    #[serde(deserialize_with = "nullable::deserialize")]
    pub truncations: BTreeMap<String, bool>,
    pub index: u64,
}

/// One object in [`FuzzyMatches`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct FuzzyMatch {
    /// The text that matches: a name, an image, a command.
    #[serde(rename = "ID")]
    pub id: String,
    /// The way to the object: namespace, job, group, task; the id of an allocation or a node.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::deserialize"
    )]
    pub scope: Vec<String>,
}
