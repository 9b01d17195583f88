//! Sprig's functions of texts. The text that is changed is the last argument.

use super::texts::{join, parts, replace, title};
use super::{Function, MANY, function};
use crate::call::{Answer, Call};
use crate::value::{self, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("sprig_trim", 1, 1, |call| {
        Ok(value::text(call.text(0)?.trim()))
    }),
    function("sprig_trimAll", 2, 2, trim_all),
    function("sprig_trimall", 2, 2, trim_all),
    function("sprig_trimPrefix", 2, 2, |call| {
        let (prefix, text) = (call.text(0)?, call.text(1)?);
        Ok(value::text(text.strip_prefix(prefix).unwrap_or(text)))
    }),
    function("sprig_trimSuffix", 2, 2, |call| {
        let (suffix, text) = (call.text(0)?, call.text(1)?);
        Ok(value::text(text.strip_suffix(suffix).unwrap_or(text)))
    }),
    function("sprig_upper", 1, 1, |call| {
        Ok(value::text(call.text(0)?.to_uppercase()))
    }),
    function("sprig_lower", 1, 1, |call| {
        Ok(value::text(call.text(0)?.to_lowercase()))
    }),
    function("sprig_title", 1, 1, |call| {
        Ok(value::text(title(call.text(0)?)))
    }),
    function("sprig_untitle", 1, 1, |call| {
        Ok(value::text(words(call.text(0)?, |word, text| {
            let mut letters = word.chars();
            text.extend(letters.next().into_iter().flat_map(char::to_lowercase));
            text.push_str(letters.as_str());
        })))
    }),
    function("sprig_swapcase", 1, 1, |call| {
        let swapped = call.text(0)?.chars().map(|c| match c {
            c if c.is_uppercase() => c.to_lowercase().collect::<String>(),
            c => c.to_uppercase().collect(),
        });
        Ok(value::text(swapped.collect::<String>()))
    }),
    function("sprig_repeat", 2, 2, |call| {
        let (count, text) = (call.count(0)?, call.text(1)?);
        call.pass.make(text.len().saturating_mul(count))?;
        Ok(value::text(if text.is_empty() {
            String::new()
        } else {
            text.repeat(count)
        }))
    }),
    function("sprig_substr", 3, 3, substring),
    function("sprig_trunc", 2, 2, truncated),
    function("sprig_abbrev", 2, 2, abbreviated),
    function("sprig_nospace", 1, 1, |call| {
        let kept = call.text(0)?.chars().filter(|c| !c.is_whitespace());
        Ok(value::text(kept.collect::<String>()))
    }),
    function("sprig_initials", 1, 1, |call| {
        let words = call.text(0)?.split_whitespace();
        let letters = words.filter_map(|word| word.chars().next());
        Ok(value::text(letters.collect::<String>()))
    }),
    function("sprig_contains", 2, 2, |call| {
        Ok(Value::Bool(call.text(1)?.contains(call.text(0)?)))
    }),
    function("sprig_hasPrefix", 2, 2, |call| {
        Ok(Value::Bool(call.text(1)?.starts_with(call.text(0)?)))
    }),
    function("sprig_hasSuffix", 2, 2, |call| {
        Ok(Value::Bool(call.text(1)?.ends_with(call.text(0)?)))
    }),
    function("sprig_replace", 3, 3, |call| {
        replace(call, call.text(0)?, call.text(1)?, call.text(2)?)
    }),
    function("sprig_quote", 0, MANY, |call| {
        quoted(call, |text| go_quoted(&text))
    }),
    function("sprig_squote", 0, MANY, |call| {
        quoted(call, |text| format!("'{text}'"))
    }),
    function("sprig_cat", 0, MANY, |call| {
        let some = call.arguments.iter().filter(|a| !matches!(a, Value::Nil));
        let words: Vec<String> = some.map(value::printed).collect();
        Ok(value::text(words.join(" ")))
    }),
    function("sprig_indent", 2, 2, |call| indented(call, "")),
    function("sprig_nindent", 2, 2, |call| indented(call, "\n")),
    function("sprig_plural", 3, 3, |call| {
        let index = usize::from(call.integer(2)? != 1);
        Ok(value::text(call.text(index)?))
    }),
    function("sprig_snakecase", 1, 1, |call| {
        Ok(value::text(separated(call.text(0)?, '_')))
    }),
    function("sprig_kebabcase", 1, 1, |call| {
        Ok(value::text(separated(call.text(0)?, '-')))
    }),
    function("sprig_camelcase", 1, 1, |call| {
        let words = call.text(0)?.split(['_', '-', ' ']);
        Ok(value::text(words.map(capitalized).collect::<String>()))
    }),
    function("sprig_wrap", 2, 2, |call| {
        wrapped(call, call.count(0)?, "\n", call.text(1)?)
    }),
    function("sprig_wrapWith", 3, 3, |call| {
        wrapped(call, call.count(0)?, call.text(1)?, call.text(2)?)
    }),
    function("sprig_splitList", 2, 2, |call| {
        parts(call, call.text(1)?, call.text(0)?)
    }),
    function("sprig_split", 2, 2, |call| {
        let list = parts(call, call.text(1)?, call.text(0)?)?;
        numbered(&list)
    }),
    function("sprig_splitn", 3, 3, |call| {
        let count = call.count(1)?;
        let separator = call.text(0)?;
        if separator.is_empty() {
            return Err("the separator is empty".to_owned());
        }
        let words = call.text(2)?.splitn(count, separator).map(value::text);
        numbered(&value::list(words))
    }),
    function("sprig_join", 2, 2, |call| {
        let words = texts_of(call.at(1));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        join(call, &words, call.text(0)?)
    }),
    function("sprig_sortAlpha", 1, 1, |call| {
        let mut words = texts_of(call.at(0));
        call.pass.spend(words.len())?;
        words.sort_unstable();
        Ok(value::list(words.into_iter().map(value::text)))
    }),
    function("sprig_toString", 1, 1, |call| {
        Ok(value::text(value::printed(call.at(0))))
    }),
    function("sprig_toStrings", 1, 1, |call| {
        Ok(value::list(
            texts_of(call.at(0)).into_iter().map(value::text),
        ))
    }),
];

fn trim_all(call: &Call<'_>) -> Answer {
    let set = call.text(0)?;
    Ok(value::text(call.text(1)?.trim_matches(|c| set.contains(c))))
}

/// A list's elements as texts, nil left out; one value as a list of it.
fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::List(elements) => {
            let some = elements.iter().filter(|e| !matches!(e, Value::Nil));
            some.map(value::printed).collect()
        }
        Value::Nil => Vec::new(),
        other => vec![value::printed(other)],
    }
}

/// `_0`, `_1` and so on.
fn numbered(list: &Value) -> Answer {
    let Value::List(words) = list else {
        return Ok(Value::Nil);
    };
    let entries = words.iter().enumerate();
    let entries = entries.map(|(index, word)| (format!("_{index}").into(), word.clone()));
    Ok(value::marked(value::Kind::Texts, entries.collect()))
}

/// Changes each word and keeps the space between them.
fn words(text: &str, change: impl Fn(&str, &mut String)) -> String {
    let mut result = String::with_capacity(text.len());
    for part in text.split_inclusive(char::is_whitespace) {
        change(part, &mut result);
    }
    result
}

fn substring(call: &Call<'_>) -> Answer {
    let (start, end, text) = (call.integer(0)?, call.integer(1)?, call.text(2)?);
    let length = text.len();
    let start = usize::try_from(start).unwrap_or(0).min(length);
    let end = usize::try_from(end).map_or(length, |end| end.min(length));
    cut(text, start, end.max(start))
}

fn cut(text: &str, start: usize, end: usize) -> Answer {
    let part = text.get(start..end);
    Ok(value::text(part.ok_or_else(|| {
        format!("[{start}:{end}] cuts a character")
    })?))
}

fn truncated(call: &Call<'_>) -> Answer {
    let (count, text) = (call.integer(0)?, call.text(1)?);
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if size >= text.len() {
        return Ok(value::text(text));
    }
    match count {
        0.. => cut(text, 0, size),
        _ => cut(text, text.len() - size, text.len()),
    }
}

/// At most `width` bytes, the last three dots.
fn abbreviated(call: &Call<'_>) -> Answer {
    let (width, text) = (call.count(0)?, call.text(1)?);
    if width < 4 || text.len() <= width {
        return Ok(value::text(text));
    }
    let kept = text.get(..width - 3).ok_or("the width cuts a character")?;
    Ok(value::text([kept, "..."].concat()))
}

fn quoted(call: &Call<'_>, quote: fn(String) -> String) -> Answer {
    let some = call.arguments.iter().filter(|a| !matches!(a, Value::Nil));
    let words: Vec<String> = some
        .map(|argument| quote(value::printed(argument)))
        .collect();
    Ok(value::text(words.join(" ")))
}

/// Go's `%q`.
fn go_quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for next in text.chars() {
        match next {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Spaces before each line, empty ones included.
fn indented(call: &Call<'_>, before: &str) -> Answer {
    let (spaces, text) = (call.count(0)?, call.text(1)?);
    let lines = text.matches('\n').count() + 1;
    call.pass
        .make(text.len().saturating_add(lines.saturating_mul(spaces)))?;
    let prefix = " ".repeat(spaces);
    let rest = text.replace('\n', &["\n", &prefix].concat());
    Ok(value::text([before, &prefix, &rest].concat()))
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.as_str().chars()).collect()
}

/// Lower case words with one separator: `HTTPServer` is `http_server`.
fn separated(text: &str, separator: char) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut result = String::new();
    for (index, next) in letters.iter().copied().enumerate() {
        if matches!(next, '_' | '-') || next.is_whitespace() {
            result.push(separator);
            continue;
        }
        let before = index.checked_sub(1).and_then(|i| letters.get(i)).copied();
        let is_lower = |c: Option<char>| c.is_some_and(char::is_lowercase);
        let is_start = next.is_uppercase()
            && before.is_some_and(|b| {
                b.is_lowercase()
                    || b.is_numeric()
                    || (b.is_uppercase() && is_lower(letters.get(index + 1).copied()))
            });
        if is_start {
            result.push(separator);
        }
        result.extend(next.to_lowercase());
    }
    result
}

/// Breaks lines at spaces; a word that is longer than a line stays whole.
fn wrapped(call: &Call<'_>, width: usize, line_end: &str, text: &str) -> Answer {
    let width = width.max(1);
    let breaks = text.matches(' ').count();
    call.pass.make(
        text.len()
            .saturating_add(breaks.saturating_mul(line_end.len())),
    )?;
    let mut result = String::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(' ');
        let end = rest.char_indices().nth(width).map(|(at, _)| at);
        let Some(end) = end else {
            result.push_str(rest);
            return Ok(value::text(result));
        };
        let before = rest[..end].rfind(' ');
        let is_at_space = rest[end..].starts_with(' ');
        let after = rest[end..].find(' ').map(|at| end + at);
        let Some(at) = (if is_at_space {
            Some(end)
        } else {
            before.or(after)
        }) else {
            result.push_str(rest);
            return Ok(value::text(result));
        };
        result.push_str(&rest[..at]);
        result.push_str(line_end);
        rest = &rest[at + 1..];
    }
}
