//! Set algebra, and `setproduct`, whose output is charged before it is made.

use super::arguments::list;
use super::{Answer, Arity, Context, Function, function};
use crate::value::Value;

pub(super) static FUNCTIONS: &[Function] = &[
    function("setintersection", Arity::at_least(1), |_, a| {
        fold(a, |kept, other| {
            let other = Value::set(other.to_vec());
            let found = other.elements().unwrap_or_default();
            kept.retain(|element| found.binary_search_by(|x| x.order(element)).is_ok());
        })
    }),
    function("setproduct", Arity::at_least(2), product),
    function("setsubtract", Arity::exactly(2), |_, a| {
        fold(a, |kept, other| {
            let other = Value::set(other.to_vec());
            let found = other.elements().unwrap_or_default();
            kept.retain(|element| found.binary_search_by(|x| x.order(element)).is_err());
        })
    }),
    function("setunion", Arity::at_least(1), |_, a| {
        fold(a, |kept, other| kept.extend_from_slice(other))
    }),
];

/// Starts with the first collection and applies `step` with each further one.
fn fold(arguments: &[Value], step: fn(&mut Vec<Value>, &[Value])) -> Answer {
    let mut kept = list(arguments, 0)?.to_vec();
    for position in 1..arguments.len() {
        step(&mut kept, list(arguments, position)?);
    }
    Ok(Value::set(kept))
}

/// Every way to take one element of each collection, the last one varying fastest. Of sets only,
/// the result is a set.
fn product(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for position in 0..arguments.len() {
        let elements = list(arguments, position)?;
        // A row is copied for each element: about its weight each time.
        context.spend(rows.len().saturating_mul(elements.len()).saturating_mul(64))?;
        let mut longer = Vec::with_capacity(rows.len() * elements.len());
        for row in &rows {
            for element in elements {
                let mut row = row.clone();
                row.push(element.clone());
                for cell in &row {
                    context.machine.spend_value(cell)?;
                }
                longer.push(row);
            }
        }
        rows = longer;
    }
    let rows = rows.into_iter().map(Value::List).collect();
    if arguments
        .iter()
        .all(|argument| matches!(argument, Value::Set(_)))
    {
        return Ok(Value::set(rows));
    }
    Ok(Value::List(rows))
}
