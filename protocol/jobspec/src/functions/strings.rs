//! Text: case, trimming, splitting and joining. Positions count characters.

use super::arguments::{bounded, text, texts, whole};
use super::{Answer, Arity, Context, Function, function};
use crate::value::Value;

const INDENT_MAX: usize = 1024;

pub(super) static FUNCTIONS: &[Function] = &[
    function("chomp", Arity::exactly(1), |_, a| {
        Ok(Value::string(text(a, 0)?.trim_end_matches(['\n', '\r'])))
    }),
    function("endswith", Arity::exactly(2), |_, a| {
        Ok(Value::Bool(text(a, 0)?.ends_with(&text(a, 1)?)))
    }),
    function("indent", Arity::exactly(2), indent),
    function("join", Arity::at_least(2), join),
    function("lower", Arity::exactly(1), |_, a| {
        Ok(Value::string(text(a, 0)?.to_lowercase()))
    }),
    function("replace", Arity::exactly(3), replace),
    function("split", Arity::exactly(2), split),
    function("startswith", Arity::exactly(2), |_, a| {
        Ok(Value::Bool(text(a, 0)?.starts_with(&text(a, 1)?)))
    }),
    function("strlen", Arity::exactly(1), |_, a| {
        Ok(Value::count(text(a, 0)?.chars().count()))
    }),
    function("strrev", Arity::exactly(1), |_, a| {
        Ok(Value::string(text(a, 0)?.chars().rev().collect::<String>()))
    }),
    function("substr", Arity::exactly(3), substr),
    function("title", Arity::exactly(1), title),
    function("trim", Arity::exactly(2), |_, a| {
        let cut: Vec<char> = text(a, 1)?.chars().collect();
        Ok(Value::string(
            text(a, 0)?.trim_matches(|c| cut.contains(&c)),
        ))
    }),
    function("trimprefix", Arity::exactly(2), |_, a| {
        let (whole, prefix) = (text(a, 0)?, text(a, 1)?);
        Ok(Value::string(whole.strip_prefix(&prefix).unwrap_or(&whole)))
    }),
    function("trimspace", Arity::exactly(1), |_, a| {
        Ok(Value::string(text(a, 0)?.trim()))
    }),
    function("trimsuffix", Arity::exactly(2), |_, a| {
        let (whole, suffix) = (text(a, 0)?, text(a, 1)?);
        Ok(Value::string(whole.strip_suffix(&suffix).unwrap_or(&whole)))
    }),
    function("upper", Arity::exactly(1), |_, a| {
        Ok(Value::string(text(a, 0)?.to_uppercase()))
    }),
];

/// Puts spaces before every line but the first.
fn indent(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let spaces = bounded(arguments, 0, 0, INDENT_MAX)?;
    let body = text(arguments, 1)?;
    context.spend(body.matches('\n').count().saturating_mul(spaces))?;
    Ok(Value::string(
        body.replace('\n', &format!("\n{}", " ".repeat(spaces))),
    ))
}

fn join(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let separator = text(arguments, 0)?;
    let mut parts = Vec::new();
    for position in 1..arguments.len() {
        parts.extend(texts(arguments, position)?);
    }
    context.spend(parts.len().saturating_mul(separator.len()))?;
    Ok(Value::string(parts.join(&separator)))
}

fn replace(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let (whole, old, new) = (
        text(arguments, 0)?,
        text(arguments, 1)?,
        text(arguments, 2)?,
    );
    context.spend(whole.matches(&old).count().saturating_mul(new.len()))?;
    Ok(Value::string(whole.replace(&old, &new)))
}

fn split(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let (separator, whole) = (text(arguments, 0)?, text(arguments, 1)?);
    // An element costs more memory than the character that it may come from.
    context.spend(whole.len().saturating_mul(16))?;
    if separator.is_empty() {
        return Ok(Value::List(whole.chars().map(Value::string).collect()));
    }
    Ok(Value::List(
        whole.split(&separator).map(Value::string).collect(),
    ))
}

/// `substr(text, offset, length)`: a negative offset counts from the end, a negative length means
/// all that is left.
fn substr(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let characters: Vec<char> = text(arguments, 0)?.chars().collect();
    let total = i128::try_from(characters.len()).unwrap_or(i128::MAX);
    let (offset, length) = (whole(arguments, 1)?, whole(arguments, 2)?);
    let start = if offset < 0 {
        total.saturating_add(offset)
    } else {
        offset
    }
    .clamp(0, total);
    let end = if length < 0 {
        total
    } else {
        start.saturating_add(length).min(total)
    };
    let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
    Ok(Value::string(
        characters
            .get(range)
            .unwrap_or_default()
            .iter()
            .collect::<String>(),
    ))
}

fn title(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let whole = text(arguments, 0)?;
    let mut out = String::with_capacity(whole.len());
    let mut at_start = true;
    for c in whole.chars() {
        if at_start {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
        at_start = !c.is_alphanumeric() && c != '_' && c != '\'';
    }
    Ok(Value::string(out))
}
