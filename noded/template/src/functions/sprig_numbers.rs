//! Sprig's numbers: any value is read as an int or a float, one that is no number as 0.

use super::numbers::{counted, whole};
use super::{Function, MANY, function};
use crate::call::{Answer, Call, as_text};
use crate::value::{self, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("sprig_add", 0, MANY, |call| {
        folded(call, 0, i128::checked_add)
    }),
    function("sprig_add1", 1, 1, |call| {
        whole(i128::from(integer(call.at(0))) + 1)
    }),
    function("sprig_sub", 2, 2, |call| pair(call, i128::checked_sub)),
    function("sprig_mul", 1, MANY, |call| {
        folded(call, 1, i128::checked_mul)
    }),
    function("sprig_div", 2, 2, |call| pair(call, i128::checked_div)),
    function("sprig_mod", 2, 2, |call| pair(call, i128::checked_rem)),
    function("sprig_max", 1, MANY, |call| chosen(call, i64::max)),
    function("sprig_biggest", 1, MANY, |call| chosen(call, i64::max)),
    function("sprig_min", 1, MANY, |call| chosen(call, i64::min)),
    function("sprig_maxf", 1, MANY, |call| reals(call, f64::max)),
    function("sprig_minf", 1, MANY, |call| reals(call, f64::min)),
    function("sprig_addf", 1, MANY, |call| reals(call, |a, b| a + b)),
    function("sprig_subf", 1, MANY, |call| reals(call, |a, b| a - b)),
    function("sprig_mulf", 1, MANY, |call| reals(call, |a, b| a * b)),
    function("sprig_divf", 1, MANY, |call| reals(call, |a, b| a / b)),
    function("sprig_add1f", 1, 1, |call| {
        Ok(Value::Float(real(call.at(0)) + 1.0))
    }),
    function("sprig_ceil", 1, 1, |call| {
        Ok(Value::Float(real(call.at(0)).ceil()))
    }),
    function("sprig_floor", 1, 1, |call| {
        Ok(Value::Float(real(call.at(0)).floor()))
    }),
    function("sprig_round", 2, 3, round),
    function("sprig_int", 1, 1, |call| {
        Ok(Value::Int(integer(call.at(0))))
    }),
    function("sprig_int64", 1, 1, |call| {
        Ok(Value::Int(integer(call.at(0))))
    }),
    function("sprig_float64", 1, 1, |call| {
        Ok(Value::Float(real(call.at(0))))
    }),
    function("sprig_atoi", 1, 1, |call| {
        Ok(Value::Int(call.text(0)?.parse().unwrap_or(0)))
    }),
    function("sprig_toDecimal", 1, 1, |call| {
        let text = value::printed(call.at(0));
        Ok(Value::Int(i64::from_str_radix(&text, 8).unwrap_or(0)))
    }),
    function("sprig_until", 1, 1, |call| {
        let to = call.integer(0)?;
        counted(call, 0, to, if to < 0 { -1 } else { 1 })
    }),
    function("sprig_untilStep", 3, 3, |call| {
        let (from, to, step) = (call.integer(0)?, call.integer(1)?, call.integer(2)?);
        if step == 0 || (step > 0) != (to > from) {
            return Ok(value::list([]));
        }
        counted(call, from, to, step)
    }),
    function("sprig_seq", 0, 3, sequence),
];

/// A value as an int: a text is parsed, a float is cut, the rest is 0.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a float past an int is its limit"
)]
pub(super) fn integer(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        Value::Uint(number) => i64::try_from(*number).unwrap_or(i64::MAX),
        Value::Float(number) => *number as i64,
        Value::Bool(is) => i64::from(*is),
        other => as_text(other).map_or(0, |text| {
            let whole = text.trim();
            whole.parse().unwrap_or_else(|_| match whole.get(..2) {
                Some("0x") => i64::from_str_radix(&whole[2..], 16).unwrap_or(0),
                _ => 0,
            })
        }),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "as Go converts: the nearest float"
)]
fn real(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::Uint(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Bool(is) => f64::from(u8::from(*is)),
        other => as_text(other).map_or(0.0, |text| text.trim().parse().unwrap_or(0.0)),
    }
}

fn folded(call: &Call<'_>, start: i128, by: fn(i128, i128) -> Option<i128>) -> Answer {
    let mut result = start;
    for argument in call.arguments {
        let next = by(result, integer(argument).into());
        result = next.ok_or("the result does not fit in 64 bits")?;
    }
    whole(result)
}

fn pair(call: &Call<'_>, by: fn(i128, i128) -> Option<i128>) -> Answer {
    let (left, right) = (integer(call.at(0)), integer(call.at(1)));
    whole(by(left.into(), right.into()).ok_or("a division by zero")?)
}

fn chosen(call: &Call<'_>, by: fn(i64, i64) -> i64) -> Answer {
    let numbers = call.arguments.iter().map(integer);
    Ok(Value::Int(numbers.reduce(by).unwrap_or(0)))
}

fn reals(call: &Call<'_>, by: fn(f64, f64) -> f64) -> Answer {
    let numbers = call.arguments.iter().map(real);
    Ok(Value::Float(numbers.reduce(by).unwrap_or(0.0)))
}

/// `round VALUE PLACES [ROUND_ON]`: half goes up unless the third argument says otherwise.
fn round(call: &Call<'_>) -> Answer {
    let places = call.integer(1)?;
    let on = if call.len() == 3 {
        real(call.at(2))
    } else {
        0.5
    };
    let places = i32::try_from(places.clamp(-300, 300)).unwrap_or(0);
    let scale = 10_f64.powi(places);
    let scaled = scale * real(call.at(0));
    let rounded = if scaled.fract() >= on {
        scaled.ceil()
    } else {
        scaled.floor()
    };
    Ok(Value::Float(rounded / scale))
}

/// As the command `seq`: the ints in one text.
fn sequence(call: &Call<'_>) -> Answer {
    let number = |index| call.integer(index);
    let (from, step, to) = match call.len() {
        0 => return Ok(value::text("")),
        1 => {
            let to = number(0)?;
            (1, if to < 1 { -1 } else { 1 }, to)
        }
        2 => {
            let (from, to) = (number(0)?, number(1)?);
            (from, if to < from { -1 } else { 1 }, to)
        }
        _ => (number(0)?, number(1)?, number(2)?),
    };
    if step == 0 || (from != to && (step > 0) != (to > from)) {
        return Ok(value::text(""));
    }
    let list = counted(call, from, to.saturating_add(step.signum()), step)?;
    let Value::List(numbers) = list else {
        return Ok(list);
    };
    let words: Vec<String> = numbers.iter().map(Value::to_string).collect();
    Ok(value::text(words.join(" ")))
}
