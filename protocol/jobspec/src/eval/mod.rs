//! Evaluation of expressions over the syntax tree of `hcl-edit`, which keeps spans.
//!
//! ```text
//! Expression --eval--> Value          unknown roots (attr, node, NOMAD_...) --> "${text}"
//!     |  template.rs   strings, heredocs, %{if}, %{for}
//!     |  traversal.rs  a.b, a[0], splats, pass-through
//!     |  operation.rs  operators and conditionals
//!     |  iteration.rs  for-expressions, and how collections iterate
//!     `  call.rs       functions; try and can look at unevaluated arguments
//! ```
//!
//! Everything that is produced is charged to one budget, so that a small hostile text can neither
//! run long nor grow large.

mod call;
mod iteration;
mod machine;
mod operation;
mod scope;
mod template;
mod traversal;
mod undefined;

pub(crate) use self::machine::{Exhausted, Machine};
pub(crate) use self::scope::{Scope, Unknown};
pub(crate) use self::traversal::element;

use self::machine::EXPRESSION_COST;
use crate::diagnostic::{Diagnostics, Source, Span};
use crate::value::{Number, Value};
use hcl_edit::expr::{Expression, Object, ObjectKey};
use std::collections::BTreeMap;

/// Why an expression has no value.
#[derive(Debug, Clone)]
pub(crate) struct EvalError {
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// A limit was hit: `try` and `can` must not hide it.
    pub(crate) fatal: bool,
    /// Another message already says why: this one is not shown.
    pub(crate) consequence: bool,
}

impl EvalError {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
            hint: None,
            fatal: false,
            consequence: false,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn exhausted(span: Span, exhausted: Exhausted) -> Self {
        Self {
            span,
            message: exhausted.message().to_owned(),
            hint: None,
            fatal: true,
            consequence: false,
        }
    }

    /// Shows the message, if it says anything new.
    pub(crate) fn report(self, source: &Source, list: &mut Diagnostics) {
        if !self.consequence {
            list.report(source, &self.span, self.message, self.hint);
        }
    }
}

pub(crate) type Outcome<T> = Result<T, EvalError>;

/// The span of a syntax element; an empty one for elements that the parser did not make.
pub(crate) fn span_of(element: &impl hcl_edit::Span) -> Span {
    element.span().unwrap_or(0..0)
}

/// Evaluates the expressions of one source text.
pub(crate) struct Evaluator<'s, 'i> {
    pub(crate) source: &'s Source,
    pub(crate) machine: &'s mut Machine<'i>,
}

impl Evaluator<'_, '_> {
    pub(crate) fn eval(&mut self, expression: &Expression, scope: &Scope<'_>) -> Outcome<Value> {
        let span = span_of(expression);
        self.spend(EXPRESSION_COST, &span)?;
        match expression {
            Expression::Null(_) => Ok(Value::Null),
            Expression::Bool(flag) => Ok(Value::Bool(*flag.value())),
            Expression::Number(number) => number_literal(number.value(), span),
            Expression::String(text) => {
                self.spend(text.value().len() as u64, &span)?;
                Ok(Value::String(text.value().clone()))
            }
            Expression::Array(array) => {
                let elements = array
                    .iter()
                    .map(|element| self.eval(element, scope))
                    .collect::<Outcome<_>>()?;
                Ok(Value::List(elements))
            }
            Expression::Object(object) => self.object(object, scope),
            Expression::StringTemplate(template) => self.string_template(template, scope),
            Expression::HeredocTemplate(heredoc) => self.heredoc(&heredoc.template, scope),
            Expression::Parenthesis(inner) => self.eval(inner.inner(), scope),
            Expression::Variable(name) => self.variable(name.value().as_str(), span, scope),
            Expression::Conditional(conditional) => self.conditional(conditional, scope),
            Expression::FuncCall(call) => self.call(call, span, scope),
            Expression::Traversal(traversal) => self.traversal(traversal, span, scope),
            Expression::UnaryOp(operation) => self.unary(operation, scope),
            Expression::BinaryOp(operation) => self.binary(operation, scope),
            Expression::ForExpr(iteration) => self.for_expression(iteration, scope),
        }
    }

    pub(crate) fn spend(&mut self, units: u64, span: &Span) -> Outcome<()> {
        self.machine
            .spend(units)
            .map_err(|limit| EvalError::exhausted(span.clone(), limit))
    }

    pub(crate) fn spend_value(&mut self, value: &Value, span: &Span) -> Outcome<()> {
        self.machine
            .spend_value(value)
            .map_err(|limit| EvalError::exhausted(span.clone(), limit))
    }

    fn object(&mut self, object: &Object, scope: &Scope<'_>) -> Outcome<Value> {
        let mut entries = BTreeMap::new();
        for (key, value) in object {
            let name = self.object_key(key, scope)?;
            self.spend(name.len() as u64, &span_of(value.expr()))?;
            let value = self.eval(value.expr(), scope)?;
            entries.insert(name, value);
        }
        Ok(Value::Map(entries))
    }

    fn object_key(&mut self, key: &ObjectKey, scope: &Scope<'_>) -> Outcome<String> {
        let expression = match key {
            ObjectKey::Ident(name) => return Ok(name.value().as_str().to_owned()),
            ObjectKey::Expression(expression) => expression,
        };
        let span = span_of(expression);
        if matches!(expression, Expression::Traversal(_)) {
            return Err(
                EvalError::new(span, "a key with dots or brackets is ambiguous")
                    .hint("quote it, or wrap it in parentheses to use its value"),
            );
        }
        let value = self.eval(expression, scope)?;
        value.to_text().ok_or_else(|| {
            EvalError::new(
                span,
                format!("a key must be a string, this is {}", value.kind()),
            )
        })
    }
}

fn number_literal(number: &hcl_edit::Number, span: Span) -> Outcome<Value> {
    let value = match (number.as_i64(), number.as_u64()) {
        (Some(signed), _) => Some(Number::Whole(i128::from(signed))),
        (None, Some(unsigned)) => Some(Number::Whole(i128::from(unsigned))),
        (None, None) => number.as_f64().and_then(Number::float),
    };
    value
        .map(Value::Number)
        .ok_or_else(|| EvalError::new(span, "this number is out of range"))
}
