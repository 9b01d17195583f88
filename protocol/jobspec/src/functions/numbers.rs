//! Arithmetic: `abs` to `sum`.

use super::arguments::{list, number, text, whole};
use super::{Answer, Arity, Context, Failure, Function, function};
use crate::value::{Number, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("abs", Arity::exactly(1), abs),
    function("ceil", Arity::exactly(1), |_, a| {
        rounded(number(a, 0)?, f64::ceil)
    }),
    function("floor", Arity::exactly(1), |_, a| {
        rounded(number(a, 0)?, f64::floor)
    }),
    function("log", Arity::exactly(2), |_, a| {
        finite(number(a, 0)?.as_f64().ln() / number(a, 1)?.as_f64().ln())
    }),
    function("max", Arity::at_least(1), |_, a| {
        extreme(a, std::cmp::Ordering::Greater)
    }),
    function("min", Arity::at_least(1), |_, a| {
        extreme(a, std::cmp::Ordering::Less)
    }),
    function("parseint", Arity::exactly(2), parse_int),
    function("pow", Arity::exactly(2), |_, a| {
        finite(number(a, 0)?.as_f64().powf(number(a, 1)?.as_f64()))
    }),
    function("signum", Arity::exactly(1), |_, a| {
        let order = number(a, 0)?.order(Number::Whole(0));
        Ok(Value::whole(order as i8))
    }),
    function("sum", Arity::exactly(1), sum),
];

fn finite(value: f64) -> Answer {
    Number::float(value)
        .map(Value::Number)
        .ok_or_else(|| Failure::call("the result is not a finite number"))
}

fn rounded(value: Number, round: fn(f64) -> f64) -> Answer {
    match value {
        Number::Whole(_) => Ok(Value::Number(value)),
        Number::Float(float) => finite(round(float)),
    }
}

fn abs(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    match number(arguments, 0)? {
        Number::Whole(whole) => Ok(Value::Number(Number::Whole(whole.saturating_abs()))),
        Number::Float(float) => finite(float.abs()),
    }
}

fn extreme(arguments: &[Value], keep: std::cmp::Ordering) -> Answer {
    let mut best = number(arguments, 0)?;
    for position in 1..arguments.len() {
        let candidate = number(arguments, position)?;
        if candidate.order(best) == keep {
            best = candidate;
        }
    }
    Ok(Value::Number(best))
}

fn parse_int(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let digits = text(arguments, 0)?;
    let base = whole(arguments, 1)?;
    let Some(base) = u32::try_from(base)
        .ok()
        .filter(|base| (2..=36).contains(base))
    else {
        return Err(Failure::argument(1, "the base must be between 2 and 36"));
    };
    i128::from_str_radix(&digits, base)
        .map(Value::whole)
        .map_err(|_| Failure::argument(0, format!("`{digits}` is no number in base {base}")))
}

fn sum(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let elements = list(arguments, 0)?;
    let mut whole: Option<i128> = Some(0);
    let mut float = 0.0;
    for position in 0..elements.len() {
        let summand =
            number(elements, position).map_err(|failure| Failure::argument(0, failure.message))?;
        float += summand.as_f64();
        whole = whole
            .zip(summand.as_whole())
            .and_then(|(a, b)| a.checked_add(b));
    }
    match whole {
        Some(whole) => Ok(Value::whole(whole)),
        None => finite(float),
    }
}
