//! A job as its file says it, in the shape of the API: every key that the model has is there, and
//! null where the file says nothing.

use protocol_model::Job;
use serde_json::Value as Json;

/// `said` is what the file became: the keys that it names, and what its parser adds to them.
pub(crate) fn written(said: &Json, job: &Job) -> Json {
    // A job that cannot be written as JSON was never read from any.
    let all = serde_json::to_value(job).unwrap_or_default();
    only_said(said, all)
}

/// `all` with null in place of what `said` does not name.
fn only_said(said: &Json, all: Json) -> Json {
    match (said, all) {
        (Json::Object(said), Json::Object(all)) => {
            let entries = all.into_iter().map(|(key, value)| {
                let value = said
                    .get(&key)
                    .map_or(Json::Null, |said| only_said(said, value));
                (key, value)
            });
            Json::Object(entries.collect())
        }
        (Json::Array(said), Json::Array(all)) => {
            let elements = said.iter().zip(all);
            Json::Array(elements.map(|(said, all)| only_said(said, all)).collect())
        }
        // Of a file in JSON: a duration as a text.
        (Json::String(_), Json::Number(all)) => Json::Number(all),
        (said, _) => said.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_said_is_null_at_every_depth() {
        for (said, all, wanted) in [
            (
                json!({}),
                json!({"a": 0, "b": ""}),
                json!({"a": null, "b": null}),
            ),
            (
                json!({"a": 0}),
                json!({"a": 0, "b": 1}),
                json!({"a": 0, "b": null}),
            ),
            (json!({"a": ""}), json!({"a": "service"}), json!({"a": ""})),
            (json!({"a": null}), json!({"a": 1}), json!({"a": null})),
            (json!({"a": "5s"}), json!({"a": 5}), json!({"a": 5})),
            (
                json!({"a": [], "x": 1}),
                json!({"a": null}),
                json!({"a": []}),
            ),
            (
                json!({"a": [{"b": 1}, {}]}),
                json!({"a": [{"b": 1, "c": 2}, {"b": 0, "c": 0}]}),
                json!({"a": [{"b": 1, "c": null}, {"b": null, "c": null}]}),
            ),
        ] {
            assert_eq!(only_said(&said, all), wanted, "{said}");
        }
    }
}
