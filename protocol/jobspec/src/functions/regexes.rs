//! Regular expressions. The engine runs in linear time; what a pattern may compile to is capped.

use super::arguments::text;
use super::{Answer, Arity, Context, Failure, Function, function};
use crate::value::Value;
use regex::{Captures, Regex, RegexBuilder};

const COMPILED_BYTES_MAX: usize = 256 * 1024;

/// What compiling a pattern costs of the budget: a file can compile some 250.
const COMPILE_COST: usize = 256 * 1024;

/// How many compiled patterns are kept.
const PATTERNS_MAX: usize = 64;

/// What searching a byte costs: patterns can be large.
const SEARCH_COST: usize = 8;

pub(super) static FUNCTIONS: &[Function] = &[
    function("regex", Arity::exactly(2), find),
    function("regexall", Arity::exactly(2), find_all),
    function("regex_replace", Arity::exactly(3), replace),
];

/// The compiled pattern; a pattern in a loop is compiled once.
fn compile(
    context: &mut Context<'_, '_>,
    arguments: &[Value],
    at: usize,
) -> Result<Regex, Failure> {
    let pattern = text(arguments, at)?;
    if let Some(known) = context.machine.patterns.get(&pattern) {
        return Ok(known.clone());
    }
    context.spend(COMPILE_COST + pattern.len() * 16)?;
    let compiled = RegexBuilder::new(&pattern)
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| Failure::argument(at, last_line(&error.to_string())))?;
    if context.machine.patterns.len() < PATTERNS_MAX {
        context.machine.patterns.insert(pattern, compiled.clone());
    }
    Ok(compiled)
}

/// The library's errors draw the pattern over several lines and state the fault in the last.
fn last_line(message: &str) -> String {
    message
        .lines()
        .last()
        .unwrap_or(message)
        .trim_start_matches("error: ")
        .to_owned()
}

/// The whole match, a list of its groups, or a map of them when they have names.
fn shape(pattern: &Regex, captures: &Captures<'_>) -> Value {
    let group = |found: Option<regex::Match<'_>>| {
        found.map_or(Value::Null, |found| Value::string(found.as_str()))
    };
    if pattern.captures_len() == 1 {
        return group(captures.get(0));
    }
    let named: Vec<&str> = pattern.capture_names().flatten().collect();
    if named.is_empty() {
        return Value::List(
            (1..pattern.captures_len())
                .map(|i| group(captures.get(i)))
                .collect(),
        );
    }
    Value::Map(
        named
            .iter()
            .map(|n| ((*n).to_owned(), group(captures.name(n))))
            .collect(),
    )
}

fn find(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let pattern = compile(context, arguments, 0)?;
    let subject = text(arguments, 1)?;
    context.spend(subject.len() * SEARCH_COST)?;
    match pattern.captures(&subject) {
        Some(captures) => Ok(shape(&pattern, &captures)),
        None => Err(Failure::call("the pattern does not match")),
    }
}

fn find_all(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let pattern = compile(context, arguments, 0)?;
    let subject = text(arguments, 1)?;
    context.spend(subject.len() * SEARCH_COST)?;
    let mut found = Vec::new();
    for captures in pattern.captures_iter(&subject) {
        let value = shape(&pattern, &captures);
        context.machine.spend_value(&value)?;
        found.push(value);
    }
    Ok(Value::List(found))
}

/// `regex_replace(text, pattern, replacement)`; `$1` and `${name}` stand for groups.
fn replace(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let subject = text(arguments, 0)?;
    context.spend(subject.len() * SEARCH_COST)?;
    let pattern = compile(context, arguments, 1)?;
    let replacement = text(arguments, 2)?;
    let mut out = String::new();
    let mut end = 0;
    for captures in pattern.captures_iter(&subject) {
        let Some(whole) = captures.get(0) else {
            continue;
        };
        out.push_str(&subject[end..whole.start()]);
        let before = out.len();
        captures.expand(&replacement, &mut out);
        context.spend(out.len() - before)?;
        end = whole.end();
    }
    out.push_str(&subject[end..]);
    Ok(Value::string(out))
}
