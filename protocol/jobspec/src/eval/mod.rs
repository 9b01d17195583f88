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
mod operation;
mod template;
mod traversal;

use crate::diagnostic::{Diagnostics, Source, Span};
use crate::inputs::Inputs;
use crate::value::{Number, Value};
use hcl_edit::expr::{Expression, Object, ObjectKey};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// Units that one parse may spend: a unit is a byte of some produced value; an evaluated
/// expression costs [`EXPRESSION_COST`]. A file of the largest size, all of it strings, needs
/// about a twentieth.
pub(crate) const BUDGET: u64 = 64 * 1024 * 1024;

const EXPRESSION_COST: u64 = 128;

/// What all evaluations of one parse share.
pub(crate) struct Machine<'i> {
    pub(crate) inputs: &'i mut dyn Inputs,
    pub(crate) warnings: Diagnostics,
    /// Variables and locals (`var.x`) whose own definition failed: using one is no further error.
    pub(crate) broken: BTreeSet<String>,
    /// How many identifiers `uuidv4()` has made.
    pub(crate) identifiers: u64,
    /// Regular expressions that were compiled already.
    pub(crate) patterns: BTreeMap<String, Regex>,
    budget: u64,
}

impl<'i> Machine<'i> {
    pub(crate) fn new(inputs: &'i mut dyn Inputs) -> Self {
        Self {
            inputs,
            warnings: Diagnostics::default(),
            broken: BTreeSet::new(),
            identifiers: 0,
            patterns: BTreeMap::new(),
            budget: BUDGET,
        }
    }

    /// Spends from the budget; `Err` when it is used up, and from then on.
    pub(crate) fn spend(&mut self, units: u64) -> Result<(), Exhausted> {
        if let Some(rest) = self.budget.checked_sub(units) {
            self.budget = rest;
            return Ok(());
        }
        self.budget = 0;
        Err(Exhausted::Work)
    }

    /// Charges a value that is about to be stored or copied.
    pub(crate) fn spend_value(&mut self, value: &Value) -> Result<(), Exhausted> {
        match value.weight() {
            Some(weight) => self.spend(weight),
            None => Err(Exhausted::Depth),
        }
    }
}

/// A limit of evaluation was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exhausted {
    Work,
    Depth,
}

impl Exhausted {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Work => "this file expands to more than a job file may",
            Self::Depth => "values nest deeper than 64 levels",
        }
    }
}

/// What happens to a root name that nothing defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// It stays as text, to be filled in on the node: `"${attr.kernel.name}"`.
    PassThrough,
    /// It is an error: variable files and defaults hold constants.
    Refuse,
}

/// Names that expressions can see, innermost first.
#[derive(Debug)]
pub(crate) struct Scope<'p> {
    parent: Option<&'p Self>,
    names: BTreeMap<String, Value>,
    unknown: Unknown,
}

impl<'p> Scope<'p> {
    pub(crate) fn root(unknown: Unknown) -> Self {
        Self {
            parent: None,
            names: BTreeMap::new(),
            unknown,
        }
    }

    pub(crate) fn child(&'p self) -> Self {
        Self {
            parent: Some(self),
            names: BTreeMap::new(),
            unknown: self.unknown,
        }
    }

    pub(crate) fn define(&mut self, name: impl Into<String>, value: Value) {
        self.names.insert(name.into(), value);
    }

    /// The map that `name` is bound to in this very scope, made where absent; a scalar bound to
    /// that name is replaced.
    pub(crate) fn map_mut(&mut self, name: &str) -> &mut BTreeMap<String, Value> {
        let slot = self
            .names
            .entry(name.to_owned())
            .or_insert_with(|| Value::Map(BTreeMap::new()));
        if !matches!(slot, Value::Map(_)) {
            *slot = Value::Map(BTreeMap::new());
        }
        match slot {
            Value::Map(entries) => entries,
            _ => unreachable!("made a map above"),
        }
    }

    fn lookup(&self, name: &str) -> Option<&Value> {
        let mut scope = Some(self);
        while let Some(current) = scope {
            if let Some(value) = current.names.get(name) {
                return Some(value);
            }
            scope = current.parent;
        }
        None
    }
}

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
            Expression::HeredocTemplate(heredoc) => {
                self.template(&heredoc.template, scope).map(Value::String)
            }
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
