//! Files that describe a node pool: one `node_pool` block, read with the tables of job files.

use hcl_edit::structure::{Block, Body, Structure};
use serde_json::Value as Json;

use crate::decode::{BlockView, Problems};
use crate::diagnostic::Diagnostics;
use crate::eval::span_of;
use crate::syntax::Damage;
use crate::{schema, single};

/// Reads the file of a node pool in HCL, and answers the pool as the API takes it. `name` is how
/// messages call the file. There are no variables and no files beside it.
///
/// # Errors
/// All problems of the file, located.
pub fn parse_pool(name: &str, text: &str) -> Result<Json, Diagnostics> {
    single::parse(name, text, &schema::NODE_POOL, pool_block)
}

/// The one `node_pool` block of a file.
fn pool_block<'b>(
    body: &'b Body,
    damage: &Damage,
    problems: &mut Problems<'_>,
) -> Option<BlockView<'b>> {
    let mut found: Option<&Block> = None;
    for structure in body {
        let (word, span) = match structure {
            Structure::Attribute(attribute) => (attribute.key.value(), span_of(&attribute.key)),
            Structure::Block(block) => (block.ident.value(), span_of(&block.ident)),
        };
        match (structure, word.as_str()) {
            (Structure::Block(block), "node_pool") => {
                if found.is_some() {
                    problems.report(&span, "a file holds one node pool", None);
                }
                found.get_or_insert(block);
            }
            (_, other) => {
                let hint = "the file of a node pool holds one `node_pool` block".to_owned();
                let message = format!("`{other}` does not belong here");
                problems.report(&span, message, Some(hint));
            }
        }
    }
    if found.is_none() && problems.list.is_empty() && damage.is_empty() {
        let hint = "it begins with `node_pool \"NAME\" {`".to_owned();
        problems.report(&(0..0), "there is no `node_pool` in this file", Some(hint));
    }
    found.map(BlockView::new)
}
