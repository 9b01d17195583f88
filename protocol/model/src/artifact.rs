//! Files that are fetched before a task starts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::nullable;
use crate::nullable::or_default;

/// A file or tree that is fetched before the task starts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Artifact {
    /// Where from.
    pub getter_source: Option<String>,
    /// Options of the transport: checksum, archive, ref...
    #[serde(with = "nullable")]
    pub getter_options: BTreeMap<String, String>,
    /// HTTP headers.
    #[serde(with = "nullable")]
    pub getter_headers: BTreeMap<String, String>,
    /// `any`, `file` or `dir`; absent becomes `any`.
    pub getter_mode: Option<String>,
    /// Whether certificates are not checked.
    pub getter_insecure: Option<bool>,
    /// Where to, relative to the task's directory; absent becomes `local/`.
    pub relative_dest: Option<String>,
    /// Whether the result belongs to the task's user.
    #[serde(deserialize_with = "or_default")]
    pub chown: bool,
}
