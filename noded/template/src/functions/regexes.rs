//! Regular expressions, in linear time: the syntax is Go's, as both come from RE2.

use regex::{NoExpand, Regex, RegexBuilder};

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::value::{self, Value};

/// The compiled program; `(a{1000}){1000}` is past it.
const PROGRAM_BYTES_MAX: usize = 512 * 1024;

/// Compiled expressions that one rendering keeps.
const COMPILED_MAX: usize = 64;

/// The price of one compilation: a large program takes milliseconds.
const COMPILE_STEPS: usize = 2_000;

pub(super) static FUNCTIONS: &[Function] = &[
    function("regexMatch", 2, 2, is_match),
    function("regexReplaceAll", 3, 3, |call| {
        replaced(call, call.text(0)?, call.text(1)?, call.text(2)?)
    }),
    function("sprig_regexMatch", 2, 2, is_match),
    function("sprig_mustRegexMatch", 2, 2, is_match),
    function("sprig_regexFind", 2, 2, find),
    function("sprig_mustRegexFind", 2, 2, find),
    function("sprig_regexFindAll", 3, 3, find_all),
    function("sprig_mustRegexFindAll", 3, 3, find_all),
    function("sprig_regexReplaceAll", 3, 3, sprig_replace),
    function("sprig_mustRegexReplaceAll", 3, 3, sprig_replace),
    function("sprig_regexReplaceAllLiteral", 3, 3, literal),
    function("sprig_mustRegexReplaceAllLiteral", 3, 3, literal),
    function("sprig_regexSplit", 3, 3, split),
    function("sprig_mustRegexSplit", 3, 3, split),
    function("sprig_regexQuoteMeta", 1, 1, |call| {
        Ok(value::text(quoted(call.text(0)?)))
    }),
];

/// Compiles an expression, or takes it from those that are compiled. Charges that, and a search
/// through the text.
fn compiled(call: &Call<'_>, pattern: &str, text: &str) -> Result<Regex, String> {
    let search = pattern.len().saturating_mul(text.len() / 4096);
    call.pass.spend(search + text.len() / 64)?;
    if let Some(regex) = call.pass.regexes.lock().get(pattern) {
        return Ok(regex.clone());
    }
    call.pass.spend(COMPILE_STEPS)?;
    let built = RegexBuilder::new(pattern)
        .size_limit(PROGRAM_BYTES_MAX)
        .dfa_size_limit(PROGRAM_BYTES_MAX)
        .nest_limit(100)
        .build();
    let regex = built.map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => {
            format!("the regular expression is larger than {limit} bytes when compiled")
        }
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            let reason = last.trim_start_matches("error: ");
            format!("{pattern:?} is no regular expression: {reason}")
        }
    })?;
    let mut regexes = call.pass.regexes.lock();
    if regexes.len() < COMPILED_MAX {
        regexes.insert(pattern.to_owned(), regex.clone());
    }
    Ok(regex)
}

fn is_match(call: &Call<'_>) -> Answer {
    let text = call.text(1)?;
    Ok(Value::Bool(
        compiled(call, call.text(0)?, text)?.is_match(text),
    ))
}

fn replaced(call: &Call<'_>, pattern: &str, with: &str, text: &str) -> Answer {
    let regex = compiled(call, pattern, text)?;
    let mut result = String::new();
    let mut end = 0;
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else {
            continue;
        };
        result.push_str(&text[end..whole.start()]);
        captures.expand(with, &mut result);
        end = whole.end();
        if result.len() > call.pass.limits.output_bytes {
            break;
        }
    }
    result.push_str(&text[end..]);
    Ok(value::text(result))
}

fn sprig_replace(call: &Call<'_>) -> Answer {
    replaced(call, call.text(0)?, call.text(2)?, call.text(1)?)
}

fn literal(call: &Call<'_>) -> Answer {
    let (text, with) = (call.text(1)?, call.text(2)?);
    let regex = compiled(call, call.text(0)?, text)?;
    let found = regex.find_iter(text).count();
    call.pass
        .make(text.len().saturating_add(found.saturating_mul(with.len())))?;
    Ok(value::text(
        regex.replace_all(text, NoExpand(with)).as_ref(),
    ))
}

fn find(call: &Call<'_>) -> Answer {
    let text = call.text(1)?;
    let regex = compiled(call, call.text(0)?, text)?;
    Ok(value::text(
        regex.find(text).map_or("", |found| found.as_str()),
    ))
}

/// The limit of matches: a negative number is none.
fn limit(call: &Call<'_>, index: usize) -> Result<usize, String> {
    let number = call.integer(index)?;
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}

fn find_all(call: &Call<'_>) -> Answer {
    let text = call.text(1)?;
    let regex = compiled(call, call.text(0)?, text)?;
    let found = regex.find_iter(text).take(limit(call, 2)?);
    Ok(value::list(found.map(|found| value::text(found.as_str()))))
}

fn split(call: &Call<'_>) -> Answer {
    let text = call.text(1)?;
    let regex = compiled(call, call.text(0)?, text)?;
    let parts = regex.splitn(text, limit(call, 2)?);
    Ok(value::list(parts.map(value::text)))
}

/// Go's `regexp.QuoteMeta`: a backslash before each character with a meaning.
fn quoted(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for next in text.chars() {
        if r"\.+*?()|[]{}^$".contains(next) {
            result.push('\\');
        }
        result.push(next);
    }
    result
}
