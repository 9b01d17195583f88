//! Texts: consul-template's functions. The text that is changed is the last argument.

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::value::{self, Kind, Map, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("toLower", 1, 1, |call| {
        Ok(value::text(call.text(0)?.to_lowercase()))
    }),
    function("toUpper", 1, 1, |call| {
        Ok(value::text(call.text(0)?.to_uppercase()))
    }),
    function("toTitle", 1, 1, |call| {
        Ok(value::text(title(call.text(0)?)))
    }),
    function("trimSpace", 1, 1, |call| {
        Ok(value::text(call.text(0)?.trim()))
    }),
    function("trim", 2, 2, |call| {
        let set = call.text(0)?;
        Ok(value::text(call.text(1)?.trim_matches(|c| set.contains(c))))
    }),
    function("trimPrefix", 2, 2, |call| {
        let (prefix, text) = (call.text(0)?, call.text(1)?);
        Ok(value::text(text.strip_prefix(prefix).unwrap_or(text)))
    }),
    function("trimSuffix", 2, 2, |call| {
        let (suffix, text) = (call.text(0)?, call.text(1)?);
        Ok(value::text(text.strip_suffix(suffix).unwrap_or(text)))
    }),
    function("replaceAll", 3, 3, |call| {
        replace(call, call.text(0)?, call.text(1)?, call.text(2)?)
    }),
    function("split", 2, 2, |call| {
        let (separator, text) = (call.text(0)?, call.text(1)?.trim());
        if text.is_empty() {
            return Ok(value::list([]));
        }
        parts(call, text, separator)
    }),
    function("splitToMap", 3, 3, |call| {
        let (separator, between) = (call.text(0)?, call.text(1)?);
        let text = call.text(2)?.trim();
        if separator.is_empty() || between.is_empty() {
            return Err("a separator is empty".to_owned());
        }
        let pairs = text.split(separator).filter(|pair| !pair.is_empty());
        let entries = pairs.map(|pair| {
            let (key, text) = pair.split_once(between).unwrap_or((pair, ""));
            (key.into(), value::text(text))
        });
        Ok(value::marked(Kind::Texts, entries.collect::<Map>()))
    }),
    function("join", 2, 2, |call| {
        join(call, &call.texts(1)?, call.text(0)?)
    }),
    function("indent", 2, 2, |call| {
        indent(call, call.count(0)?, call.text(1)?)
    }),
];

/// Go's `strings.Title`: a letter after none begins a word.
pub(super) fn title(text: &str) -> String {
    let mut is_start = true;
    let mut titled = String::with_capacity(text.len());
    for next in text.chars() {
        if is_start {
            titled.extend(next.to_uppercase());
        } else {
            titled.push(next);
        }
        is_start = !(next.is_alphanumeric() || next == '_');
    }
    titled
}

/// `strings.ReplaceAll`; an empty text is found before each character and at the end.
pub(super) fn replace(call: &Call<'_>, from: &str, to: &str, text: &str) -> Answer {
    let found = text.matches(from).count();
    call.pass
        .make(text.len().saturating_add(found.saturating_mul(to.len())))?;
    Ok(value::text(text.replace(from, to)))
}

/// `strings.Split`; an empty separator splits into characters.
pub(super) fn parts(call: &Call<'_>, text: &str, separator: &str) -> Answer {
    call.pass.spend(text.len() / 8)?;
    if separator.is_empty() {
        let mut buffer = [0; 4];
        let characters = text
            .chars()
            .map(|c| value::text(&*c.encode_utf8(&mut buffer)));
        return Ok(value::list(characters));
    }
    Ok(value::list(text.split(separator).map(value::text)))
}

pub(super) fn join(call: &Call<'_>, texts: &[&str], separator: &str) -> Answer {
    let between = separator.len().saturating_mul(texts.len());
    let bytes = texts.iter().map(|text| text.len());
    call.pass.make(bytes.fold(between, usize::saturating_add))?;
    Ok(value::text(texts.join(separator)))
}

/// Spaces before each line that is not empty.
fn indent(call: &Call<'_>, spaces: usize, text: &str) -> Answer {
    let lines = text.split('\n').filter(|line| !line.is_empty()).count();
    call.pass
        .make(text.len().saturating_add(lines.saturating_mul(spaces)))?;
    let prefix = " ".repeat(if lines == 0 { 0 } else { spaces });
    let lines = text.split('\n').map(|line| {
        let prefix = if line.is_empty() { "" } else { prefix.as_str() };
        [prefix, line].concat()
    });
    Ok(Value::String(lines.collect::<Vec<_>>().join("\n").into()))
}
