//! One attribute: evaluated, then converted to what its field holds.

use super::{BlockView, Decoder};
use crate::diagnostic::Span;
use crate::eval::{Scope, span_of};
use crate::schema::{Field, Kind};
use crate::suggestion::closest;
use crate::value::Value;
use hcl_edit::expr::Expression;
use hcl_edit::structure::Structure;
use protocol_model::duration::parse_go;
use serde_json::{Map, Value as Json};

/// What is wrong with a value, and what to do.
struct Unfit {
    message: String,
    hint: Option<String>,
}

impl Unfit {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    fn wanted(what: &str, found: &Value) -> Self {
        Self::new(format!("this must be {what}, it is {}", found.kind()))
    }
}

impl Decoder<'_, '_> {
    /// `None` for null, which is the same as not written, and after a problem.
    pub(super) fn attribute_value(
        &mut self,
        field: &Field,
        expression: &Expression,
        scope: &Scope<'_>,
    ) -> Option<Json> {
        let span = span_of(expression);
        let value = self.evaluate(expression, scope)?;
        if matches!(field.kind, Kind::Duration) && matches!(value, Value::Number(_)) {
            let message = format!("`{}` is a duration without a unit: nanoseconds", field.hcl);
            let hint = "write it like \"30s\"".to_owned();
            self.machine
                .warnings
                .report(self.problems.source, &span, message, Some(hint));
        }
        self.fitted(field.kind, value, &span)
    }

    fn fitted(&mut self, kind: Kind, value: Value, span: &Span) -> Option<Json> {
        match convert(kind, value) {
            Ok(json) => json,
            Err(Unfit { message, hint }) => {
                self.problems.report(span, message, hint);
                None
            }
        }
    }

    /// The value of an expression, or a reported problem.
    pub(super) fn evaluate(&mut self, expression: &Expression, scope: &Scope<'_>) -> Option<Value> {
        match self.evaluator().eval(expression, scope) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problems.report_error(error);
                None
            }
        }
    }

    /// The inside of `meta { ... }`, `env { ... }` and the like.
    pub(super) fn pairs_body(
        &mut self,
        kind: Kind,
        view: &BlockView<'_>,
        scope: &Scope<'_>,
    ) -> Map<String, Json> {
        let each = if matches!(kind, Kind::TextsMap) {
            Kind::Texts
        } else {
            Kind::Text
        };
        let mut pairs = Map::new();
        for structure in view.body {
            match structure {
                Structure::Attribute(attribute) => {
                    let name = attribute.key.value().as_str();
                    let span = span_of(&attribute.value);
                    let Some(value) = self.evaluate(&attribute.value, scope) else {
                        continue;
                    };
                    let json = self.fitted(each, value, &span);
                    pairs.extend(json.map(|json| (name.to_owned(), json)));
                }
                Structure::Block(block) => {
                    let message = format!("`{}` holds names and values, no blocks", view.name);
                    self.problems.report(&span_of(&block.ident), message, None);
                }
            }
        }
        pairs
    }
}

fn convert(kind: Kind, value: Value) -> Result<Option<Json>, Unfit> {
    if value == Value::Null {
        return Ok(None);
    }
    match kind {
        Kind::Text => text(&value),
        Kind::Choice(choices) => {
            let json = text(&value)?;
            choice(choices, &json)?;
            Ok(json)
        }
        Kind::Bool => match value.to_bool() {
            Some(flag) => Ok(Json::Bool(flag)),
            None => Err(Unfit::wanted("true or false", &value)),
        },
        Kind::Whole { min, max } => whole(&value, min, max),
        Kind::Duration => duration(&value),
        Kind::Texts => each(value, |element| text(&element)),
        Kind::Wholes => each(value, |element| whole(&element, 0, 65535)),
        Kind::TextMap => entries(value, |value| text(&value)),
        Kind::TextsMap => entries(value, |value| each(value, |element| text(&element))),
        Kind::Free => match value {
            Value::Map(entries) => Ok(Value::Map(entries).into_json()),
            other => Err(Unfit::wanted("a map", &other)),
        },
        Kind::Block(_) | Kind::Blocks(_) | Kind::Keyed(_) => {
            unreachable!("the caller keeps blocks out")
        }
    }
    .map(Some)
}

fn text(value: &Value) -> Result<Json, Unfit> {
    value
        .to_text()
        .map(Json::String)
        .ok_or_else(|| Unfit::wanted("a string", value))
}

fn choice(choices: &[&str], given: &Json) -> Result<(), Unfit> {
    let given = given.as_str().unwrap_or_default();
    // Empty counts as not given, as it does in the API.
    if given.is_empty() || choices.contains(&given) {
        return Ok(());
    }
    let hint =
        closest(given, choices.iter().copied()).map(|near| format!("did you mean `{near}`?"));
    let message = format!("`{given}` is not one of {}", choices.join(", "));
    Err(Unfit { message, hint })
}

fn whole(value: &Value, min: i64, max: i64) -> Result<Json, Unfit> {
    let Some(number) = value.to_number() else {
        return Err(Unfit::wanted("a whole number", value));
    };
    let Some(whole) = number.as_whole() else {
        return Err(Unfit::new(format!(
            "this must be a whole number, it is {number}"
        )));
    };
    match i64::try_from(whole) {
        Ok(whole) if (min..=max).contains(&whole) => return Ok(Json::from(whole)),
        _ => {}
    }
    let bounds = if max < i64::MAX {
        format!("between {min} and {max}")
    } else if whole < i128::from(min) {
        format!("at least {min}")
    } else {
        format!("at most {max}")
    };
    Err(Unfit::new(format!("this must be {bounds}, it is {whole}")))
}

/// Nanoseconds, as the API has them.
fn duration(value: &Value) -> Result<Json, Unfit> {
    let Value::String(written) = value else {
        return whole(value, 0, i64::MAX).map_err(|_| Unfit {
            message: format!("this must be a duration, it is {}", value.kind()),
            hint: Some("write it like \"30s\" or \"1h30m\"".to_owned()),
        });
    };
    let parsed = parse_go(written).map_err(|error| Unfit::new(error.to_string()))?;
    Ok(Json::from(
        u64::try_from(parsed.as_nanos()).unwrap_or(u64::MAX),
    ))
}

fn each(value: Value, convert: impl Fn(Value) -> Result<Json, Unfit>) -> Result<Json, Unfit> {
    match value {
        Value::List(elements) | Value::Set(elements) => {
            let found: Result<Vec<Json>, Unfit> = elements.into_iter().map(convert).collect();
            found.map(Json::Array)
        }
        other @ Value::String(_) => Err(Unfit {
            hint: Some("put brackets around it: [\"...\"]".to_owned()),
            ..Unfit::wanted("a list", &other)
        }),
        other => Err(Unfit::wanted("a list", &other)),
    }
}

fn entries(value: Value, convert: impl Fn(Value) -> Result<Json, Unfit>) -> Result<Json, Unfit> {
    let Value::Map(entries) = value else {
        return Err(Unfit::wanted("a map", &value));
    };
    let mut converted = Map::new();
    for (name, value) in entries {
        if value == Value::Null {
            continue;
        }
        let json = convert(value).map_err(|unfit| Unfit {
            message: format!("`{name}`: {}", unfit.message),
            hint: unfit.hint,
        })?;
        converted.insert(name, json);
    }
    Ok(Json::Object(converted))
}
