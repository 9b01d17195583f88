//! Files that describe a namespace: attributes and blocks, with no block around them.

use hcl_edit::structure::Body;
use serde_json::Value as Json;

use crate::decode::{BlockView, Problems};
use crate::diagnostic::Diagnostics;
use crate::syntax::Damage;
use crate::{schema, single};

/// Reads the file of a namespace in HCL, and answers the namespace as the API takes it. `name` is
/// how messages call the file. There are no variables and no files beside it.
///
/// # Errors
/// All problems of the file, located.
pub fn parse_namespace(name: &str, text: &str) -> Result<Json, Diagnostics> {
    single::parse(name, text, &schema::NAMESPACE, whole_file)
}

fn whole_file<'b>(body: &'b Body, _: &Damage, _: &mut Problems<'_>) -> Option<BlockView<'b>> {
    Some(BlockView::of_file("namespace", body))
}
