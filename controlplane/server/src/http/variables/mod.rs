//! `/v1/vars` and `/v1/var/:path`: variables and their locks.
//!
//! ```text
//!  PUT ?lock-..  ─► request ─► settle (namespace of the body, path) ─► seal ─► log
//!                                            409: the present variable, items for readers alone
//! ```

mod items;
mod list;
mod lock;
mod read;
mod request;
mod shown;
mod write;

use controlplane_state::VariableKey;
use protocol_api::variables::{DeleteVariable, ListVariables, ReadVariable, WriteVariable};

use super::ask::Ask;
use super::error::HttpError;
use super::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    ListVariables => list::list,
    ReadVariable => read::read,
    WriteVariable => write::write,
    DeleteVariable => write::remove,
];

/// The variable that a request names; the namespace of its body counts before that of the query.
///
/// # Errors
/// 400 where it names all namespaces, or no path.
fn key(ask: &Ask, of_body: &str) -> Result<VariableKey, HttpError> {
    let namespace = match of_body {
        "" => ask.query.namespace(),
        named => named,
    };
    if namespace == "*" {
        let text = "can not target wildcard (\"*\")namespace";
        return Err(HttpError::bad_request(text));
    }
    let path = ask.parameter("path");
    if path.is_empty() {
        return Err(HttpError::bad_request("missing variable path"));
    }
    Ok(VariableKey::new(namespace, path))
}
