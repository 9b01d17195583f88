//! Variables and the ways into them: `a.b`, `a["b"]`, `a[0]`, `a.0`, `a[*].b`, `a.*.b`.
//!
//! A root that nothing defines is left as text for the node to fill in: `${attr.cpu.arch}` stays
//! `${attr.cpu.arch}`, also outside of strings (as Nomad 1.6 does). `var` and `local` are always
//! defined, so a misspelt variable is an error.

use super::{EvalError, Evaluator, Outcome, Scope, Unknown, span_of};
use crate::diagnostic::Span;
use crate::suggestion::closest;
use crate::value::Value;
use hcl_edit::expr::{Expression, Traversal, TraversalOperator};

impl Evaluator<'_, '_> {
    pub(super) fn variable(&mut self, name: &str, span: Span, scope: &Scope<'_>) -> Outcome<Value> {
        match scope.lookup(name) {
            Some(value) => {
                self.spend_value(value, &span)?;
                Ok(value.clone())
            }
            None => self.unknown(name, span, scope),
        }
    }

    pub(super) fn traversal(
        &mut self,
        traversal: &Traversal,
        span: Span,
        scope: &Scope<'_>,
    ) -> Outcome<Value> {
        let operators: Vec<&TraversalOperator> = traversal
            .operators
            .iter()
            .map(|operator| operator.value())
            .collect();
        if let Expression::Variable(name) = &traversal.expr {
            let name = name.value().as_str();
            let Some(root) = scope.lookup(name) else {
                if operators.iter().all(|operator| is_constant(operator)) {
                    return self.unknown(name, span, scope);
                }
                return Err(EvalError::new(span, format!("`{name}` is not defined"))
                    .hint("only names and constant indexes can be left for the node to fill in"));
            };
            return self.descend(root, name, &operators, &span, scope);
        }
        let root = self.eval(&traversal.expr, scope)?;
        self.descend(&root, "", &operators, &span, scope)
    }

    /// Follows `operators` into `root` and copies out what is found.
    fn descend(
        &mut self,
        root: &Value,
        root_name: &str,
        operators: &[&TraversalOperator],
        span: &Span,
        scope: &Scope<'_>,
    ) -> Outcome<Value> {
        let mut current = root;
        for (position, operator) in operators.iter().enumerate() {
            let here = span_of(*operator);
            let here = if here == (0..0) { span.clone() } else { here };
            current = match operator {
                TraversalOperator::GetAttr(name) => {
                    let name = name.value().as_str();
                    let root_name = if position == 0 { root_name } else { "" };
                    attribute(current, name, root_name, &here)
                        .map_err(|error| self.explain(error, root_name, name))?
                }
                TraversalOperator::LegacyIndex(index) => {
                    element(current, &Value::whole(*index.value()), &here)?
                }
                TraversalOperator::Index(expression) => {
                    let index = self.eval(expression, scope)?;
                    element(current, &index, &here)?
                }
                TraversalOperator::FullSplat(_) => {
                    return self.splat(current, &operators[position + 1..], span, scope);
                }
                TraversalOperator::AttrSplat(_) => {
                    let rest = &operators[position + 1..];
                    let attributes = rest
                        .iter()
                        .take_while(|o| matches!(o, TraversalOperator::GetAttr(_)))
                        .count();
                    let list = self.splat(current, &rest[..attributes], span, scope)?;
                    return self.descend(&list, "", &rest[attributes..], span, scope);
                }
            };
        }
        self.spend_value(current, span)?;
        Ok(current.clone())
    }

    /// A variable or local that has no value because its definition failed was reported there;
    /// one that does not exist may be a misspelt failed one.
    fn explain(&self, mut error: EvalError, root_name: &str, name: &str) -> EvalError {
        let broken = &self.machine.broken;
        error.consequence = broken.contains(&format!("{root_name}.{name}"))
            || broken.contains(&format!("{root_name}.*"));
        if error.hint.is_none() {
            let prefix = format!("{root_name}.");
            let names = broken.iter().filter_map(|full| full.strip_prefix(&prefix));
            error.hint = closest(name, names.take(CANDIDATES_MAX))
                .map(|known| format!("did you mean `{known}`?"));
        }
        error
    }

    /// Applies `operators` to every element; a single value counts as a list of one, null as none.
    fn splat(
        &mut self,
        value: &Value,
        operators: &[&TraversalOperator],
        span: &Span,
        scope: &Scope<'_>,
    ) -> Outcome<Value> {
        let elements = match value {
            Value::Null => &[],
            Value::List(elements) | Value::Set(elements) => elements.as_slice(),
            single => std::slice::from_ref(single),
        };
        let found = elements
            .iter()
            .map(|element| self.descend(element, "", operators, span, scope))
            .collect::<Outcome<_>>()?;
        Ok(Value::List(found))
    }

    fn unknown(&mut self, name: &str, span: Span, scope: &Scope<'_>) -> Outcome<Value> {
        if scope.unknown == Unknown::Refuse {
            return Err(
                EvalError::new(span, format!("`{name}` cannot be used here"))
                    .hint("values given to variables are constants"),
            );
        }
        let text = self.source.slice(span.clone());
        self.spend(text.len() as u64, &span)?;
        let value = format!("${{{text}}}");
        if !is_filled_in_on_the_node(name) {
            self.machine.undefined.add(&span, text, name);
        }
        Ok(Value::String(value))
    }
}

/// Names that a suggestion is looked for among: an error within `can` or `try` must stay cheap.
const CANDIDATES_MAX: usize = 64;

/// Roots that the node interpolates, and names in capitals, which are meant for a shell.
fn is_filled_in_on_the_node(root: &str) -> bool {
    matches!(
        root,
        "attr" | "node" | "meta" | "env" | "device" | "unique" | "secret"
    ) || !root.chars().any(char::is_lowercase)
        || root.starts_with("NOMAD_")
        || root.starts_with("DROVER_")
}

fn is_constant(operator: &TraversalOperator) -> bool {
    match operator {
        TraversalOperator::GetAttr(_) | TraversalOperator::LegacyIndex(_) => true,
        TraversalOperator::Index(index) => {
            matches!(index, Expression::String(_) | Expression::Number(_))
        }
        TraversalOperator::AttrSplat(_) | TraversalOperator::FullSplat(_) => false,
    }
}

fn attribute<'v>(value: &'v Value, name: &str, root_name: &str, span: &Span) -> Outcome<&'v Value> {
    let Value::Map(entries) = value else {
        let message = format!("{} has no attribute `{name}`", value.kind());
        return Err(EvalError::new(span.clone(), message));
    };
    entries.get(name).ok_or_else(|| {
        let message = match root_name {
            "var" => format!("no variable `{name}` is declared"),
            "local" => format!("no local `{name}` is defined"),
            _ => format!("there is no attribute `{name}`"),
        };
        let error = EvalError::new(span.clone(), message);
        match closest(
            name,
            entries.keys().map(String::as_str).take(CANDIDATES_MAX),
        ) {
            Some(known) => error.hint(format!("did you mean `{known}`?")),
            None => error,
        }
    })
}

/// `value[index]`: by position in lists, by key in maps.
pub(crate) fn element<'v>(value: &'v Value, index: &Value, span: &Span) -> Outcome<&'v Value> {
    match value {
        Value::Map(entries) => {
            let Some(key) = index.to_text() else {
                let message = format!("a map is indexed by a string, not by {}", index.kind());
                return Err(EvalError::new(span.clone(), message));
            };
            entries
                .get(&key)
                .ok_or_else(|| EvalError::new(span.clone(), format!("the map has no key `{key}`")))
        }
        Value::List(elements) => {
            let position = index.to_number().and_then(crate::value::Number::as_whole);
            let Some(position) = position else {
                let message = format!(
                    "a list is indexed by a whole number, not by {}",
                    index.kind()
                );
                return Err(EvalError::new(span.clone(), message));
            };
            usize::try_from(position)
                .ok()
                .and_then(|position| elements.get(position))
                .ok_or_else(|| {
                    let length = elements.len();
                    let message = format!("index {position} is outside of a list of {length}");
                    EvalError::new(span.clone(), message)
                })
        }
        Value::Set(_) => Err(
            EvalError::new(span.clone(), "a set has no order to index by")
                .hint("turn it into a list with tolist()"),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(EvalError::new(
            span.clone(),
            format!("{} cannot be indexed", value.kind()),
        )),
    }
}
