//! The `template` block. Its defaults are part of parsing, as in Nomad's own parser.

use super::{Field, Kind, Schema, block, duration, field, flag, schema, text, texts};
use serde_json::json;

/// Nanoseconds of five seconds: the default of `splay` and of a change script's `timeout`.
const FIVE_SECONDS_NS: u64 = 5_000_000_000;

pub(super) static TEMPLATE: Schema = schema(
    "template",
    &[
        text("source", "SourcePath"),
        text("destination", "DestPath"),
        text("data", "EmbeddedTmpl"),
        text("change_mode", "ChangeMode"),
        text("change_signal", "ChangeSignal"),
        block("ChangeScript", &CHANGE_SCRIPT),
        duration("splay", "Splay"),
        text("perms", "Perms"),
        owner("uid", "Uid"),
        owner("gid", "Gid"),
        text("left_delimiter", "LeftDelim"),
        text("right_delimiter", "RightDelim"),
        flag("env", "Envvars"),
        duration("vault_grace", "VaultGrace"),
        block("Wait", &WAIT),
        flag("error_on_missing_key", "ErrMissingKey"),
        flag("once", "Once"),
    ],
)
.finish(|block, _| {
    block.default("ChangeMode", json!("restart"));
    block.default("Perms", json!("0644"));
    block.default("Splay", json!(FIVE_SECONDS_NS));
    block.default("ErrMissingKey", json!(false));
});

static CHANGE_SCRIPT: Schema = schema(
    "change_script",
    &[
        text("command", "Command"),
        texts("args", "Args"),
        duration("timeout", "Timeout"),
        flag("fail_on_error", "FailOnError"),
    ],
)
.finish(|block, _| {
    block.default("Timeout", json!(FIVE_SECONDS_NS));
    block.default("FailOnError", json!(false));
});

static WAIT: Schema = schema("wait", &[duration("min", "Min"), duration("max", "Max")]);

/// A user or group number; -1 leaves it as it is.
const fn owner(hcl: &'static str, json: &'static str) -> Field {
    field(
        hcl,
        json,
        Kind::Whole {
            min: -1,
            max: i32::MAX as i64,
        },
    )
}
