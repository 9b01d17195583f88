//! The task's environment and files, and templates of the same text.

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::engine;
use crate::known::Dependency;
use crate::value;

pub(super) static FUNCTIONS: &[Function] = &[
    function("env", 1, 1, |call| {
        let found = call.pass.known.environment.get(call.text(0)?);
        Ok(value::text(found.map_or("", String::as_str)))
    }),
    function("envOrDefault", 2, 2, |call| {
        let found = call.pass.known.environment.get(call.text(0)?);
        let default = call.text(1)?;
        Ok(value::text(found.map_or(default, String::as_str)))
    }),
    function("mustEnv", 1, 1, |call| {
        let name = call.text(0)?;
        let found = call.pass.known.environment.get(name);
        let found = found.filter(|text| !text.is_empty());
        let found = found.ok_or_else(|| format!("{name} is not set, or empty"))?;
        Ok(value::text(found.as_str()))
    }),
    function("file", 1, 1, file),
    function("executeTemplate", 1, 2, |call| {
        engine::execute(call.pass, call.text(0)?, call.at(1)).map(value::text)
    }),
];

fn file(call: &Call<'_>) -> Answer {
    let path = call.text(0)?;
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    let Some(bytes) = call.pass.known.files.get(path) else {
        call.pass.miss(Dependency::File(path.to_owned()));
        return Ok(value::text(""));
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        format!("{path} is not UTF-8: the byte at {at} is not")
    })?;
    Ok(value::text(text))
}
