//! Files that describe one object that is no job, read with the tables of job files.

use hcl_edit::structure::Body;
use serde_json::Value as Json;

use crate::SOURCE_BYTES_MAX;
use crate::decode::{BlockView, Decoder, Problems};
use crate::diagnostic::{Diagnostics, Source};
use crate::eval::{Machine, Scope, Unknown};
use crate::inputs::{NoFiles, Variables};
use crate::schema::Schema;
use crate::syntax::{self, Damage, Syntax};
use crate::text::without_mark;

/// Finds the part of a file that describes the object, or reports why there is none.
pub(crate) type Find = for<'b> fn(&'b Body, &Damage, &mut Problems<'_>) -> Option<BlockView<'b>>;

/// Decodes the part that `find` finds along `schema`. `name` is how messages call the file. There
/// are no variables and no files beside it.
///
/// # Errors
/// All problems of the file, located.
pub(crate) fn parse(
    name: &str,
    text: &str,
    schema: &'static Schema,
    find: Find,
) -> Result<Json, Diagnostics> {
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
    let decoded = find(&body, &damage, &mut problems).and_then(|view| {
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
        decoder.block(schema, &view, &scope)
    });
    match decoded {
        Some(object) if list.is_empty() => Ok(object),
        Some(_) | None => {
            list.sort();
            Err(list)
        }
    }
}
