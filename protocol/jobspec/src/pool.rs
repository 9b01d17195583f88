//! Files that describe a node pool: one `node_pool` block, read with the tables of job files.

use hcl_edit::structure::{Block, Body, Structure};
use serde_json::Value as Json;

use crate::decode::{BlockView, Decoder, Problems};
use crate::diagnostic::{Diagnostics, Source};
use crate::eval::{Machine, Scope, Unknown, span_of};
use crate::inputs::{NoFiles, Variables};
use crate::syntax::{self, Damage, Syntax};
use crate::text::without_mark;
use crate::{SOURCE_BYTES_MAX, schema};

/// Reads the file of a node pool in HCL, and answers the pool as the API takes it. `name` is how
/// messages call the file. There are no variables and no files beside it.
///
/// # Errors
/// All problems of the file, located.
pub fn parse_pool(name: &str, text: &str) -> Result<Json, Diagnostics> {
    let text = without_mark(text);
    if text.len() > SOURCE_BYTES_MAX {
        let length = text.len();
        let message = format!("the file has {length} bytes, the limit is {SOURCE_BYTES_MAX}");
        let source = Source::new(name, "");
        return Err(source.diagnostic(&(0..0), message, None).into());
    }
    let source = Source::new(name, text);
    let mut list = Diagnostics::default();
    let Syntax { body, damage } = syntax::parse(&source, &mut list);
    let Some(damage) = damage else {
        list.sort();
        return Err(list);
    };
    let mut problems = Problems {
        source: &source,
        list: &mut list,
    };
    let decoded = pool_block(&body, &damage, &mut problems).and_then(|block| {
        let mut inputs = NoFiles {
            variables: Variables::default(),
            now: jiff::Timestamp::UNIX_EPOCH,
            seed: 0,
        };
        let mut machine = Machine::new(&mut inputs);
        let scope = Scope::root(Unknown::Refuse);
        let mut decoder = Decoder {
            problems,
            machine: &mut machine,
            damage: &damage,
        };
        decoder.block(&schema::NODE_POOL, &BlockView::new(block), &scope)
    });
    match decoded {
        Some(pool) if list.is_empty() => Ok(pool),
        Some(_) | None => {
            list.sort();
            Err(list)
        }
    }
}

/// The one `node_pool` block of a file.
fn pool_block<'b>(
    body: &'b Body,
    damage: &Damage,
    problems: &mut Problems<'_>,
) -> Option<&'b Block> {
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
    found
}
