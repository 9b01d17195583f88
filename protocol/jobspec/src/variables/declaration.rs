//! What a file says of its variables.

use super::{VariableSet, constant};
use crate::diagnostic::Span;
use crate::eval::{EvalError, Outcome, Scope, Unknown, span_of};
use crate::suggestion::closest;
use crate::type_constraint::TypeConstraint;
use crate::value::Value;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body, Structure};

/// One variable, and the value it has so far.
pub(super) struct Declaration<'b> {
    pub(super) span: Span,
    /// What values are converted to; without a type it follows from the default.
    pub(super) wanted: TypeConstraint,
    pub(super) form: Form,
    /// Whether messages may show a value that was given from outside.
    pub(super) secrecy: Secrecy,
    pub(super) value: Option<Value>,
    pub(super) validations: Vec<&'b Block>,
}

/// How a text that was given from outside is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// It is the value: of strings, and where neither type nor default say what it is.
    Literal,
    Expression,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    Public,
    Sensitive,
}

impl<'b> Declaration<'b> {
    fn new(span: Span) -> Self {
        Self {
            span,
            wanted: TypeConstraint::Any,
            form: Form::Literal,
            secrecy: Secrecy::Public,
            value: None,
            validations: Vec::new(),
        }
    }
}

impl<'b> VariableSet<'b, '_, '_> {
    pub(super) fn declare_all(&mut self, body: &'b Body) {
        for block in body.blocks() {
            match block.ident.value().as_str() {
                "variable" => self.declare(block),
                "variables" => self.declare_defaults(block),
                _ => {}
            }
        }
    }

    fn declare(&mut self, block: &'b Block) {
        let span = span_of(&block.ident);
        let [label] = block.labels.as_slice() else {
            self.report(&span, "`variable` takes one label: its name", None);
            return;
        };
        let name = label.as_str();
        if !is_name(name) {
            let hint = "use letters, digits, `_` and `-`, a letter first".to_owned();
            let message = format!("`{name}` cannot name a variable");
            self.report(&span_of(label), message, Some(hint));
        }
        let mut declaration = Declaration::new(span_of(label));
        let (mut wanted, mut default) = (None, None);
        for structure in &block.body {
            match structure {
                Structure::Attribute(attribute) => match attribute.key.value().as_str() {
                    "type" => wanted = Some(&attribute.value),
                    "default" => default = Some(&attribute.value),
                    "description" => {}
                    "sensitive" => self.sensitive(&attribute.value, &mut declaration),
                    other => self.unknown(other, &span_of(&attribute.key)),
                },
                Structure::Block(inner) if inner.ident.value().as_str() == "validation" => {
                    declaration.validations.push(inner);
                }
                Structure::Block(inner) => {
                    self.unknown(inner.ident.value().as_str(), &span_of(&inner.ident));
                }
            }
        }
        if let Err(error) = self.fill(&mut declaration, wanted, default) {
            self.report_error(name, error);
        }
        self.insert(name, declaration);
    }

    fn fill(
        &mut self,
        declaration: &mut Declaration<'_>,
        wanted: Option<&Expression>,
        default: Option<&Expression>,
    ) -> Outcome<()> {
        if let Some(wanted) = wanted {
            declaration.wanted = TypeConstraint::from_expression(wanted)?;
        }
        if wanted.is_some() || default.is_some() {
            declaration.form = Form::Expression;
        }
        let Some(default) = default else {
            return Ok(());
        };
        let value = constant(self.source, self.machine, default)?;
        if wanted.is_none() {
            declaration.wanted = implied(&value);
        }
        let converted = declaration.wanted.convert(value);
        let value = converted.map_err(|message| EvalError::new(span_of(default), message))?;
        declaration.value = Some(value);
        Ok(())
    }

    /// Honoured in messages; the job itself holds the value for all who may read it.
    fn sensitive(&mut self, expression: &Expression, declaration: &mut Declaration<'_>) {
        let scope = Scope::root(Unknown::Refuse);
        let mut evaluator = crate::eval::Evaluator {
            source: self.source,
            machine: self.machine,
        };
        match evaluator.condition(expression, &scope) {
            Ok(false) => {}
            Ok(true) => {
                declaration.secrecy = Secrecy::Sensitive;
                let message = "`sensitive` keeps the value out of messages, not out of the job";
                self.machine
                    .warnings
                    .report(self.source, &span_of(expression), message, None);
            }
            Err(error) => crate::decode::Problems {
                source: self.source,
                list: self.problems,
            }
            .report_error(error),
        }
    }

    /// `variables { name = default }`.
    fn declare_defaults(&mut self, block: &'b Block) {
        for attribute in block.body.attributes() {
            let name = attribute.key.value().as_str();
            let mut declaration = Declaration::new(span_of(&attribute.key));
            if let Err(error) = self.fill(&mut declaration, None, Some(&attribute.value)) {
                self.report_error(name, error);
            }
            self.insert(name, declaration);
        }
    }

    fn insert(&mut self, name: &str, declaration: Declaration<'b>) {
        let span = declaration.span.clone();
        if self.declared.insert(name.to_owned(), declaration).is_some() {
            self.report(
                &span,
                format!("the variable `{name}` is declared twice"),
                None,
            );
        }
    }

    fn unknown(&mut self, name: &str, span: &Span) {
        let known = ["type", "default", "description", "sensitive", "validation"];
        let hint = closest(name, known).map(|known| format!("did you mean `{known}`?"));
        self.report(span, format!("`variable` has no `{name}`"), hint);
    }
}

/// The type of a variable that names none.
fn implied(default: &Value) -> TypeConstraint {
    match default {
        Value::Null => TypeConstraint::Any,
        Value::Bool(_) => TypeConstraint::Bool,
        Value::Number(_) => TypeConstraint::Number,
        Value::String(_) => TypeConstraint::String,
        Value::List(_) => TypeConstraint::any_list(),
        Value::Set(_) => TypeConstraint::any_set(),
        Value::Map(_) => TypeConstraint::any_map(),
    }
}

fn is_name(name: &str) -> bool {
    let begins = |c: char| c.is_alphabetic() || c == '_';
    name.starts_with(begins)
        && name
            .chars()
            .all(|c| begins(c) || c.is_numeric() || c == '-')
}
