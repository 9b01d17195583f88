//! The schema of variable specifications.

use super::{Kind, Schema, field, schema, text, text_map};

const INDEX: Kind = Kind::Whole {
    min: 0,
    max: i64::MAX,
};

pub(crate) static VARIABLE: Schema = schema(
    "variable",
    &[
        text("namespace", "Namespace"),
        text("path", "Path"),
        text_map("items", "Items"),
        field("create_index", "CreateIndex", INDEX),
        field("modify_index", "ModifyIndex", INDEX),
        field("create_time", "CreateTime", INDEX),
        field("modify_time", "ModifyTime", INDEX),
    ],
);
