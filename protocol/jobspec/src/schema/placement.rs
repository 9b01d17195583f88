//! Where work may run: `constraint`, `affinity`, `spread`, with their short forms.

use super::{Field, Kind, Schema, blocks, field, flag, labelled, schema, text};
use crate::decode::{DecodedBlock, Problems};
use serde_json::{Value as Json, json};

/// Operators that have a short form: `version = ">= 1.2"` for `operator` and `value`.
const OPERATORS: &[&str] = &[
    "version",
    "semver",
    "regexp",
    "set_contains",
    "set_contains_any",
    "set_contains_all",
];

pub(super) static CONSTRAINT: Schema = schema(
    "constraint",
    &[
        text("attribute", "LTarget"),
        text("operator", "Operand"),
        text("value", "RTarget"),
        text("version", "~version"),
        text("semver", "~semver"),
        text("regexp", "~regexp"),
        text("set_contains", "~set_contains"),
        text("set_contains_any", "~set_contains_any"),
        text("set_contains_all", "~set_contains_all"),
        text("distinct_property", "~distinct_property"),
        flag("distinct_hosts", "~distinct_hosts"),
        flag("is_set", "~is_set"),
        flag("is_not_set", "~is_not_set"),
    ],
)
.finish(finish_constraint);

pub(super) static AFFINITY: Schema = schema(
    "affinity",
    &[
        text("attribute", "LTarget"),
        text("operator", "Operand"),
        text("value", "RTarget"),
        weight("weight", "Weight"),
        text("version", "~version"),
        text("semver", "~semver"),
        text("regexp", "~regexp"),
        text("set_contains", "~set_contains"),
        text("set_contains_any", "~set_contains_any"),
        text("set_contains_all", "~set_contains_all"),
    ],
)
.finish(|block, problems| {
    short_operators(block, problems);
    block.default("Operand", json!("="));
});

pub(super) static SPREAD: Schema = schema(
    "spread",
    &[
        text("attribute", "Attribute"),
        weight("weight", "Weight"),
        blocks("SpreadTarget", &TARGET),
    ],
);

static TARGET: Schema = labelled("target", "Value", &[weight("percent", "Percent")]);

/// Bounds are the validation's: the range here is what the type holds.
const fn weight(hcl: &'static str, json: &'static str) -> Field {
    field(
        hcl,
        json,
        Kind::Whole {
            min: i32::MIN as i64,
            max: i32::MAX as i64,
        },
    )
}

/// Turns the short forms into `operator` and its operands; no more than one may be there.
fn short_operators(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    for name in OPERATORS {
        let Some(value) = block.take(&format!("~{name}")) else {
            continue;
        };
        set_operator(block, problems, name);
        block.object.insert("RTarget".to_owned(), value);
    }
}

fn finish_constraint(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    short_operators(block, problems);
    if let Some(property) = block.take("~distinct_property") {
        set_operator(block, problems, "distinct_property");
        block.object.insert("LTarget".to_owned(), property);
    }
    for name in ["is_set", "is_not_set"] {
        if block.take(&format!("~{name}")) == Some(Json::Bool(true)) {
            set_operator(block, problems, name);
        }
    }
    match block.take("~distinct_hosts") {
        Some(Json::Bool(true)) => set_operator(block, problems, "distinct_hosts"),
        // Said to be off: the same as not said.
        Some(_) => block.dropped = true,
        None => {}
    }
    block.default("Operand", json!("="));
}

fn set_operator(block: &mut DecodedBlock, problems: &mut Problems<'_>, name: &'static str) {
    let before = block.object.insert("Operand".to_owned(), json!(name));
    if let Some(before) = before.as_ref().and_then(Json::as_str)
        && before != name
    {
        let message = format!("`{name}` and `{before}` cannot both be the operator");
        problems.report(&block.span_of(name), message, None);
    }
}
