//! Checksums and identifiers.

use super::arguments::text;
use super::{Answer, Arity, Context, Failure, Function, function};
use crate::value::Value;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use uuid::{Builder, Uuid};

pub(super) static FUNCTIONS: &[Function] = &[
    function("md5", Arity::exactly(1), |_, a| {
        Ok(hex(&Md5::digest(text(a, 0)?)))
    }),
    function("sha1", Arity::exactly(1), |_, a| {
        Ok(hex(&<Sha1 as sha1::Digest>::digest(text(a, 0)?)))
    }),
    function("sha256", Arity::exactly(1), |_, a| {
        Ok(hex(&Sha256::digest(text(a, 0)?)))
    }),
    function("sha512", Arity::exactly(1), |_, a| {
        Ok(hex(&Sha512::digest(text(a, 0)?)))
    }),
    function("uuidv4", Arity::exactly(0), random_identifier),
    function("uuidv5", Arity::exactly(2), named_identifier),
];

fn hex(bytes: &[u8]) -> Value {
    Value::String(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The next identifier of the sequence that the caller's seed starts.
fn random_identifier(context: &mut Context<'_, '_>, _: &[Value]) -> Answer {
    let bytes = context.random_bytes(b"uuidv4");
    Ok(Value::String(
        Builder::from_random_bytes(bytes).into_uuid().to_string(),
    ))
}

fn named_identifier(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let namespace = match text(arguments, 0)?.as_str() {
        "dns" => Uuid::NAMESPACE_DNS,
        "url" => Uuid::NAMESPACE_URL,
        "oid" => Uuid::NAMESPACE_OID,
        "x500" => Uuid::NAMESPACE_X500,
        other => Uuid::parse_str(other).map_err(|_| {
            Failure::argument(0, "the namespace must be dns, url, oid, x500 or a UUID")
        })?,
    };
    Ok(Value::String(
        Uuid::new_v5(&namespace, text(arguments, 1)?.as_bytes()).to_string(),
    ))
}
