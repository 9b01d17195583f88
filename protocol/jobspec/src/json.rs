//! Job files in JSON: `{"Job": {...}}` as the API takes it, or the job itself. Errors are located
//! in the text; a key that means nothing is a warning, because API clients send more than we read.

use crate::diagnostic::{Diagnostic, Diagnostics, Source};
use protocol_model::{Job, json};
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// How many unknown keys are named.
const WARNINGS_MAX: usize = 20;

/// JSON readers stop at 128 levels; a job must still be readable inside of other documents.
const DEPTH_MAX: usize = 100;

pub(crate) const TOO_DEEP: &str = "the job nests deeper than 100 levels";

pub(crate) fn is_too_deep(job: &Json) -> bool {
    fn exceeds(value: &Json, left: usize) -> bool {
        match value {
            Json::Array(elements) => {
                left == 0 || elements.iter().any(|element| exceeds(element, left - 1))
            }
            Json::Object(entries) => {
                left == 0 || entries.values().any(|value| exceeds(value, left - 1))
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
        }
    }
    exceeds(job, DEPTH_MAX)
}

#[derive(serde::Deserialize)]
struct Envelope<'t> {
    #[serde(rename = "Job", borrow)]
    job: Option<&'t RawValue>,
}

/// The job, and the JSON that it was read from.
pub(crate) fn parse(
    source: &Source,
    warnings: &mut Diagnostics,
) -> Result<(Job, Json), Diagnostics> {
    let text = source.text.as_str();
    let envelope: Envelope<'_> =
        json::from_str(text).map_err(|e| Diagnostics::from(error(source, 0, &e)))?;
    let (inner, offset) = match envelope.job {
        Some(raw) => (
            raw.get(),
            raw.get().as_ptr() as usize - text.as_ptr() as usize,
        ),
        None => (text, 0),
    };
    let job: Job =
        json::from_str(inner).map_err(|e| Diagnostics::from(error(source, offset, &e)))?;
    if job.id.is_empty() {
        let hint = "a job has at least an \"ID\" and \"TaskGroups\"".to_owned();
        let span = offset..offset + 1;
        return Err(source
            .diagnostic(&span, "this JSON is not a job", Some(hint))
            .into());
    }
    let given: Json =
        serde_json::from_str(inner).map_err(|e| Diagnostics::from(error(source, offset, &e)))?;
    if is_too_deep(&given) {
        return Err(source
            .diagnostic(&(offset..offset + 1), TOO_DEEP, None)
            .into());
    }
    if let Ok(kept) = serde_json::to_value(&job) {
        let mut ignored = Vec::new();
        ignored_keys(&given, &kept, "", &mut ignored);
        for path in ignored {
            let key = path.rsplit('.').next().unwrap_or(&path);
            let place = text
                .find(&format!("\"{key}\""))
                .map_or(0..0, |at| at..at + key.len() + 2);
            warnings.push(source.diagnostic(&place, format!("`{path}` is not known"), None));
        }
    }
    Ok((job, given))
}

/// Keys that did not survive reading and writing, in no case. Null says nothing and may go.
pub(crate) fn ignored_keys(given: &Json, kept: &Json, path: &str, out: &mut Vec<String>) {
    match (given, kept) {
        (Json::Object(given), Json::Object(kept)) => {
            for (key, value) in given {
                if out.len() == WARNINGS_MAX {
                    return;
                }
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                let other_case = || {
                    let mut kept = kept.iter();
                    kept.find(|(name, _)| name.eq_ignore_ascii_case(key))
                };
                match kept.get(key).or_else(|| Some(other_case()?.1)) {
                    Some(kept) => ignored_keys(value, kept, &path, out),
                    None if says_nothing(value) => {}
                    None => out.push(path),
                }
            }
        }
        (Json::Array(given), Json::Array(kept)) => {
            for (position, (given, kept)) in given.iter().zip(kept).enumerate() {
                ignored_keys(given, kept, &format!("{path}[{position}]"), out);
            }
        }
        _ => {}
    }
}

/// What the model may leave out when it writes: null, empty, false, zero.
fn says_nothing(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => true,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
        Json::Array(elements) => elements.is_empty(),
        Json::Object(entries) => entries.is_empty(),
        Json::Bool(true) => false,
    }
}

/// A reader's error within the part of the text that begins at `offset`.
pub(crate) fn error(source: &Source, offset: usize, error: &serde_json::Error) -> Diagnostic {
    let part = &source.text[offset..];
    let line_start: usize = part
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let place = offset + line_start + error.column().saturating_sub(1);
    // The library appends "at line L column C", which is relative to the part.
    let message = error.to_string();
    let message = message
        .split(" at line ")
        .next()
        .unwrap_or(&message)
        .to_owned();
    source.diagnostic(&(place..place + 1), message, None)
}
