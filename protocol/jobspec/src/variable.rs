//! Variable specifications: attributes and the map of items, with no block around them.

use hcl_edit::structure::Body;
use serde_json::Value as Json;

use crate::decode::{BlockView, Problems};
use crate::diagnostic::Diagnostics;
use crate::syntax::Damage;
use crate::{schema, single};

/// Reads the specification of a variable in HCL, and answers the variable as the API takes it.
/// `name` is how messages call the file. There are no variables and no files beside it.
///
/// # Errors
/// All problems of the file, located.
pub fn parse_variable(name: &str, text: &str) -> Result<Json, Diagnostics> {
    single::parse(name, text, &schema::VARIABLE, whole_file)
}

fn whole_file<'b>(body: &'b Body, _: &Damage, _: &mut Problems<'_>) -> Option<BlockView<'b>> {
    Some(BlockView::of_file("variable", body))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_are_a_block_or_a_map() {
        let wanted = json!({ "Path": "a/b", "Namespace": "dev", "Items": { "k": "v" } });
        for items in ["items {\n  k = \"v\"\n}", "items = { \"k\" = \"v\" }"] {
            let text = format!("path = \"a/b\"\nnamespace = \"dev\"\n{items}\n");
            let read = parse_variable("spec.nv.hcl", &text).expect(items);
            for (key, value) in wanted.as_object().expect("an object") {
                assert_eq!(read[key], *value, "{key}");
            }
        }
    }

    #[test]
    fn an_unknown_key_is_located() {
        let problems = parse_variable("spec.nv.hcl", "pathh = \"a\"\n").expect_err("a mistake");
        let text = problems.to_string();
        assert!(text.contains("spec.nv.hcl:1"), "{text}");
    }
}
