//! Sprig's functions of lists. A list is the last argument of some and the first of others, as
//! sprig has it.

use super::{Function, MANY, function};
use crate::call::{Answer, Call};
use crate::value::{self, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("sprig_list", 0, MANY, list),
    function("sprig_tuple", 0, MANY, list),
    function("sprig_first", 1, 1, first),
    function("sprig_mustFirst", 1, 1, first),
    function("sprig_last", 1, 1, last),
    function("sprig_mustLast", 1, 1, last),
    function("sprig_rest", 1, 1, rest),
    function("sprig_mustRest", 1, 1, rest),
    function("sprig_initial", 1, 1, initial),
    function("sprig_mustInitial", 1, 1, initial),
    function("sprig_append", 2, 2, append),
    function("sprig_mustAppend", 2, 2, append),
    function("sprig_push", 2, 2, append),
    function("sprig_mustPush", 2, 2, append),
    function("sprig_prepend", 2, 2, prepend),
    function("sprig_mustPrepend", 2, 2, prepend),
    function("sprig_concat", 0, MANY, |call| {
        let mut all = Vec::new();
        for index in 0..call.len() {
            let next = call.list(index)?;
            // Copies are charged before they are made.
            call.pass.spend(next.len() / 8)?;
            all.extend_from_slice(next);
        }
        Ok(value::list(all))
    }),
    function("sprig_reverse", 1, 1, reverse),
    function("sprig_mustReverse", 1, 1, reverse),
    function("sprig_uniq", 1, 1, uniq),
    function("sprig_mustUniq", 1, 1, uniq),
    function("sprig_without", 1, MANY, without),
    function("sprig_mustWithout", 1, MANY, without),
    function("sprig_has", 2, 2, has),
    function("sprig_mustHas", 2, 2, has),
    function("sprig_compact", 1, 1, compact),
    function("sprig_mustCompact", 1, 1, compact),
    function("sprig_slice", 1, 3, slice),
    function("sprig_mustSlice", 1, 3, slice),
    function("sprig_chunk", 2, 2, chunk),
    function("sprig_mustChunk", 2, 2, chunk),
];

fn list(call: &Call<'_>) -> Answer {
    Ok(value::list(call.arguments.iter().cloned()))
}

fn copied(elements: &[Value]) -> Value {
    value::list(elements.iter().cloned())
}

fn first(call: &Call<'_>) -> Answer {
    Ok(call.list(0)?.first().cloned().unwrap_or(Value::Nil))
}

fn last(call: &Call<'_>) -> Answer {
    Ok(call.list(0)?.last().cloned().unwrap_or(Value::Nil))
}

fn rest(call: &Call<'_>) -> Answer {
    Ok(copied(call.list(0)?.get(1..).unwrap_or_default()))
}

fn initial(call: &Call<'_>) -> Answer {
    let all = call.list(0)?;
    Ok(copied(&all[..all.len().saturating_sub(1)]))
}

fn append(call: &Call<'_>) -> Answer {
    let all = call.list(0)?.iter().chain([call.at(1)]);
    Ok(value::list(all.cloned()))
}

fn prepend(call: &Call<'_>) -> Answer {
    let all = [call.at(1)].into_iter().chain(call.list(0)?);
    Ok(value::list(all.cloned()))
}

fn reverse(call: &Call<'_>) -> Answer {
    Ok(value::list(call.list(0)?.iter().rev().cloned()))
}

/// Charges a comparison of each element with each other.
fn spend_pairs(call: &Call<'_>, left: usize, right: usize) -> Result<(), String> {
    call.pass.spend(left.saturating_mul(right) / 8)
}

fn uniq(call: &Call<'_>) -> Answer {
    let all = call.list(0)?;
    let mut kept: Vec<Value> = Vec::new();
    for element in all {
        spend_pairs(call, kept.len(), 1)?;
        if !kept.iter().any(|k| value::equal(k, element)) {
            kept.push(element.clone());
        }
    }
    Ok(value::list(kept))
}

fn without(call: &Call<'_>) -> Answer {
    let (all, unwanted) = (call.list(0)?, &call.arguments[1..]);
    spend_pairs(call, all.len(), unwanted.len())?;
    let kept = all
        .iter()
        .filter(|e| !unwanted.iter().any(|u| value::equal(u, e)));
    Ok(value::list(kept.cloned()))
}

fn has(call: &Call<'_>) -> Answer {
    let all = call.list(1)?;
    spend_pairs(call, all.len(), 1)?;
    Ok(Value::Bool(all.iter().any(|e| value::equal(e, call.at(0)))))
}

fn compact(call: &Call<'_>) -> Answer {
    let kept = call.list(0)?.iter().filter(|element| element.is_truthy());
    Ok(value::list(kept.cloned()))
}

fn slice(call: &Call<'_>) -> Answer {
    let all = call.list(0)?;
    let start = if call.len() > 1 { call.count(1)? } else { 0 };
    let end = if call.len() > 2 {
        call.count(2)?
    } else {
        all.len()
    };
    let part = all.get(start..end).ok_or_else(|| {
        let length = all.len();
        format!("[{start}:{end}] is out of range: the length is {length}")
    })?;
    Ok(copied(part))
}

fn chunk(call: &Call<'_>) -> Answer {
    let size = call.count(0)?;
    if size == 0 {
        return Err("the size is 0".to_owned());
    }
    Ok(value::list(call.list(1)?.chunks(size).map(copied)))
}
