//! Sprig's functions of dicts. A dict does not change in place: `sprig_merge` and others return a
//! new one.

use super::collections::{Keep, merged};
use super::{Function, MANY, function};
use crate::call::{Answer, Call, as_text};
use crate::value::{self, Map, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("sprig_dict", 0, MANY, |call| {
        let pairs = call.arguments.chunks(2).map(|pair| {
            let key: std::sync::Arc<str> = value::printed(&pair[0]).into();
            (key, pair.get(1).cloned().unwrap_or_else(|| value::text("")))
        });
        let pairs = pairs.filter(|(key, _)| !key.starts_with('\u{1}'));
        Ok(value::map(pairs.collect()))
    }),
    function("sprig_get", 2, 2, |call| {
        let found = call.map(0)?.get(call.text(1)?).cloned();
        Ok(found.unwrap_or_else(|| value::text("")))
    }),
    function("sprig_hasKey", 2, 2, |call| {
        Ok(Value::Bool(call.map(0)?.contains_key(call.text(1)?)))
    }),
    function("sprig_pluck", 1, MANY, |call| {
        let key = call.text(0)?;
        let mut found = Vec::new();
        for index in 1..call.len() {
            found.extend(call.map(index)?.get(key).cloned());
        }
        Ok(value::list(found))
    }),
    function("sprig_keys", 0, MANY, |call| {
        let mut keys = Vec::new();
        for index in 0..call.len() {
            keys.extend(call.map(index)?.into_keys().map(value::text));
        }
        Ok(value::list(keys))
    }),
    function("sprig_values", 1, 1, |call| {
        Ok(value::list(call.map(0)?.into_values()))
    }),
    function("sprig_pick", 1, MANY, |call| picked(call, true)),
    function("sprig_omit", 1, MANY, |call| picked(call, false)),
    function("sprig_merge", 1, MANY, |call| merge(call, Keep::Base)),
    function("sprig_mustMerge", 1, MANY, |call| merge(call, Keep::Base)),
    function("sprig_mergeOverwrite", 1, MANY, |call| {
        merge(call, Keep::Other)
    }),
    function("sprig_mustMergeOverwrite", 1, MANY, |call| {
        merge(call, Keep::Other)
    }),
    function("sprig_deepCopy", 1, 1, |call| Ok(call.at(0).clone())),
    function("sprig_mustDeepCopy", 1, 1, |call| Ok(call.at(0).clone())),
    function("sprig_dig", 3, MANY, dig),
];

fn picked(call: &Call<'_>, is_kept: bool) -> Answer {
    let keys: Result<Vec<&str>, String> = (1..call.len()).map(|index| call.text(index)).collect();
    let keys = keys?;
    let map = call.map(0)?;
    call.pass.spend(map.len().saturating_mul(keys.len()) / 8)?;
    let kept = map
        .into_iter()
        .filter(|(key, _)| keys.contains(&&**key) == is_kept);
    Ok(value::map(kept.collect()))
}

fn merge(call: &Call<'_>, keep: Keep) -> Answer {
    let mut result = call.map(0)?;
    for index in 1..call.len() {
        result = merged(call, result, &call.map(index)?, keep)?;
    }
    Ok(value::map(result))
}

/// `dig KEY... DEFAULT DICT`.
fn dig(call: &Call<'_>) -> Answer {
    let last = call.len() - 1;
    let mut map: Map = call.map(last)?;
    let default = call.at(last - 1);
    for index in 0..last - 1 {
        let key = as_text(call.at(index)).ok_or_else(|| call.expected(index, "a text"))?;
        let Some(found) = map.get(key).cloned() else {
            return Ok(default.clone());
        };
        if index == last - 2 {
            return Ok(found);
        }
        let Value::Map(inner) = found else {
            return Err(format!(
                "{key:?} is a {}, not a map",
                value::type_name(&found)
            ));
        };
        map = value::entries(&inner)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
    }
    Ok(default.clone())
}
