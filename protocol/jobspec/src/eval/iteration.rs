//! For-expressions, and the one rule of how a collection iterates: lists by position, sets by
//! element, maps by key in lexical order.

use super::{EvalError, Evaluator, Outcome, Scope, span_of};
use crate::value::Value;
use hcl_edit::expr::{Expression, ForExpr};
use std::collections::BTreeMap;

/// The (key, value) pairs of a collection, or `None` for anything else.
fn pairs(collection: Value) -> Option<Vec<(Value, Value)>> {
    match collection {
        Value::List(elements) => Some(
            elements
                .into_iter()
                .enumerate()
                .map(|(i, v)| (Value::count(i), v))
                .collect(),
        ),
        Value::Set(elements) => Some(elements.into_iter().map(|v| (v.clone(), v)).collect()),
        Value::Map(entries) => Some(
            entries
                .into_iter()
                .map(|(k, v)| (Value::String(k), v))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

impl Evaluator<'_, '_> {
    pub(super) fn for_expression(
        &mut self,
        expression: &ForExpr,
        scope: &Scope<'_>,
    ) -> Outcome<Value> {
        let intro = &expression.intro;
        let items = self.collection(&intro.collection_expr, scope)?;
        let mut list = Vec::new();
        let mut map = BTreeMap::new();
        for (key, value) in items {
            let mut inner = scope.child();
            if let Some(name) = &intro.key_var {
                inner.define(name.value().as_str(), key);
            }
            inner.define(intro.value_var.value().as_str(), value);
            if let Some(condition) = &expression.cond
                && !self.condition(&condition.expr, &inner)?
            {
                continue;
            }
            let value = self.eval(&expression.value_expr, &inner)?;
            match &expression.key_expr {
                None => list.push(value),
                Some(key) => self.insert(&mut map, key, value, expression.grouping, &inner)?,
            }
        }
        Ok(if expression.key_expr.is_some() {
            Value::Map(map)
        } else {
            Value::List(list)
        })
    }

    fn insert(
        &mut self,
        map: &mut BTreeMap<String, Value>,
        key_expression: &Expression,
        value: Value,
        grouping: bool,
        scope: &Scope<'_>,
    ) -> Outcome<()> {
        let span = span_of(key_expression);
        let key = self.eval(key_expression, scope)?;
        let Some(key) = key.to_text() else {
            let message = format!("a key must be a string, this is {}", key.kind());
            return Err(EvalError::new(span, message));
        };
        if grouping {
            let group = map.entry(key).or_insert_with(|| Value::List(Vec::new()));
            if let Value::List(members) = group {
                members.push(value);
            }
            return Ok(());
        }
        if map.contains_key(&key) {
            return Err(
                EvalError::new(span, format!("two elements have the key `{key}`"))
                    .hint("write `...` after the value to group elements of one key"),
            );
        }
        map.insert(key, value);
        Ok(())
    }

    /// The pairs of an expression that must be a collection.
    pub(crate) fn collection(
        &mut self,
        expression: &Expression,
        scope: &Scope<'_>,
    ) -> Outcome<Vec<(Value, Value)>> {
        let value = self.eval(expression, scope)?;
        let kind = value.kind();
        pairs(value).ok_or_else(|| {
            let message = format!("only a list, a set or a map can be iterated, this is {kind}");
            EvalError::new(span_of(expression), message)
        })
    }
}
