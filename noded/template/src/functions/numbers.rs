//! Numbers: consul-template's functions. Of two arguments the second is the one that is changed:
//! `subtract 2 5` is 3.

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::value::{self, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("add", 2, 2, |call| {
        computed(call, i128::checked_add, |a, b| a + b)
    }),
    function("subtract", 2, 2, |call| {
        computed(call, |a, b| b.checked_sub(a), |a, b| b - a)
    }),
    function("multiply", 2, 2, |call| {
        computed(call, i128::checked_mul, |a, b| a * b)
    }),
    function("divide", 2, 2, |call| {
        not_zero(call)?;
        computed(call, |a, b| b.checked_div(a), |a, b| b / a)
    }),
    function("modulo", 2, 2, |call| {
        not_zero(call)?;
        let (Number::Whole(a), Number::Whole(b)) = (number(call, 0)?, number(call, 1)?) else {
            return Err("it takes ints".to_owned());
        };
        whole(b % a)
    }),
    function("minimum", 2, 2, |call| {
        computed(call, |a, b| Some(a.min(b)), f64::min)
    }),
    function("maximum", 2, 2, |call| {
        computed(call, |a, b| Some(a.max(b)), f64::max)
    }),
    function("loop", 1, 2, |call| {
        let (from, to) = match call.len() {
            1 => (0, whole_of(call, 0)?),
            _ => (whole_of(call, 0)?, whole_of(call, 1)?),
        };
        counted(call, from, to, 1)
    }),
];

#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
}

fn number(call: &Call<'_>, index: usize) -> Result<Number, String> {
    match call.at(index) {
        Value::Int(number) => Ok(Number::Whole((*number).into())),
        Value::Uint(number) => Ok(Number::Whole((*number).into())),
        Value::Float(number) => Ok(Number::Real(*number)),
        _ => Err(call.expected(index, "a number")),
    }
}

impl Number {
    #[expect(
        clippy::cast_precision_loss,
        reason = "as Go converts: the nearest float"
    )]
    fn real(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }
}

/// An int of 64 bits, or an unsigned one where only that fits.
pub(super) fn whole(number: i128) -> Answer {
    if let Ok(number) = i64::try_from(number) {
        return Ok(Value::Int(number));
    }
    let number = u64::try_from(number).map_err(|_| format!("{number} does not fit in 64 bits"))?;
    Ok(Value::Uint(number))
}

fn computed(
    call: &Call<'_>,
    whole_numbers: fn(i128, i128) -> Option<i128>,
    reals: fn(f64, f64) -> f64,
) -> Answer {
    match (number(call, 0)?, number(call, 1)?) {
        (Number::Whole(a), Number::Whole(b)) => {
            whole(whole_numbers(a, b).ok_or("the result does not fit in 64 bits")?)
        }
        (a, b) => Ok(Value::Float(reals(a.real(), b.real()))),
    }
}

fn not_zero(call: &Call<'_>) -> Result<(), String> {
    match number(call, 0)? {
        Number::Whole(0) => Err("a division by zero".to_owned()),
        _ => Ok(()),
    }
}

/// An int, also as text: `loop (env "NOMAD_META_count")` works.
fn whole_of(call: &Call<'_>, index: usize) -> Result<i64, String> {
    match call.at(index) {
        Value::String(text) => {
            let parsed = text.trim().parse();
            parsed.map_err(|_| format!("{:?} is no int", text.as_ref()))
        }
        _ => call.integer(index),
    }
}

/// The ints from `from` up to but without `to`.
pub(super) fn counted(call: &Call<'_>, from: i64, to: i64, step: i64) -> Answer {
    if step == 0 {
        return Err("the step is 0".to_owned());
    }
    let span = i128::from(to) - i128::from(from);
    let step_wide = i128::from(step);
    let count = if span.signum() == step_wide.signum() {
        (span.abs() + step_wide.abs() - 1) / step_wide.abs()
    } else {
        0
    };
    let max = call.pass.limits.elements;
    let Some(count) = usize::try_from(count).ok().filter(|count| *count < max) else {
        return Err(call
            .pass
            .exhaust(format!("a list has more than {max} elements")));
    };
    let mut next = from;
    Ok(value::list((0..count).map(|_| {
        let number = next;
        next = next.saturating_add(step);
        Value::Int(number)
    })))
}
