//! `variable` blocks and the values given for them.
//!
//! Order of precedence, weakest first: default, environment, variable files, arguments. A text
//! given for a variable that is not a string is read as an expression: `-var 'dcs=["a","b"]'`.

use crate::SOURCE_BYTES_MAX;
use crate::decode::Problems;
use crate::diagnostic::{Diagnostics, Source, Span};
use crate::eval::{EvalError, Evaluator, Machine, Outcome, Scope, Unknown, span_of};
use crate::inputs::{VariableFile, Variables};
use crate::suggestion::closest;
use crate::type_constraint::TypeConstraint;
use crate::value::Value;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Attribute, Block, Body, Structure};
use std::collections::BTreeMap;

/// Prefixes of environment variables, weakest first.
const ENVIRONMENT_PREFIXES: [&str; 2] = ["NOMAD_VAR_", "DROVER_VAR_"];

struct Declaration<'b> {
    span: Span,
    /// What values are converted to; without a type it follows from the default.
    wanted: TypeConstraint,
    value: Option<Value>,
    validations: Vec<&'b Body>,
}

/// Reads all declarations and assignments and defines `var` in `scope`.
pub(crate) fn define(
    body: &Body,
    source: &Source,
    machine: &mut Machine<'_>,
    problems: &mut Diagnostics,
    scope: &mut Scope<'_>,
) {
    let mut set = VariableSet {
        source,
        machine,
        problems,
        declared: BTreeMap::new(),
    };
    set.declare_all(body);
    let given = set.machine.inputs.variables().clone();
    set.assign_environment(&given);
    given.files.iter().for_each(|file| set.assign_file(file));
    set.assign_arguments(&given);
    set.validate();
    set.finish(scope);
}

struct VariableSet<'b, 'm, 'i> {
    source: &'m Source,
    machine: &'m mut Machine<'i>,
    problems: &'m mut Diagnostics,
    declared: BTreeMap<String, Declaration<'b>>,
}

impl<'b> VariableSet<'b, '_, '_> {
    fn report(&mut self, span: &Span, message: impl Into<String>, hint: Option<String>) {
        self.problems.report(self.source, span, message, hint);
    }

    fn declare_all(&mut self, body: &'b Body) {
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
        let mut declaration = Declaration {
            span: span_of(label),
            wanted: TypeConstraint::Any,
            value: None,
            validations: Vec::new(),
        };
        let (mut wanted, mut default) = (None, None);
        for structure in &block.body {
            match structure {
                Structure::Attribute(attribute) => match attribute.key.value().as_str() {
                    "type" => wanted = Some(&attribute.value),
                    "default" => default = Some(&attribute.value),
                    "description" | "sensitive" => {}
                    other => self.unknown(other, &span_of(&attribute.key)),
                },
                Structure::Block(inner) if inner.ident.value().as_str() == "validation" => {
                    declaration.validations.push(&inner.body);
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

    /// `variables { name = default }`.
    fn declare_defaults(&mut self, block: &'b Block) {
        for attribute in block.body.attributes() {
            let name = attribute.key.value().as_str();
            let mut declaration = Declaration {
                span: span_of(&attribute.key),
                wanted: TypeConstraint::Any,
                value: None,
                validations: Vec::new(),
            };
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

    fn report_error(&mut self, name: &str, error: EvalError) {
        self.machine.broken.insert(format!("var.{name}"));
        Problems {
            source: self.source,
            list: self.problems,
        }
        .report_error(error);
    }

    fn assign_environment(&mut self, given: &Variables) {
        for prefix in ENVIRONMENT_PREFIXES {
            for (full_name, text) in &given.environment {
                if let Some(name) = full_name.strip_prefix(prefix)
                    && self.declared.contains_key(name)
                {
                    self.assign_text(name, full_name, text);
                }
            }
        }
    }

    fn assign_arguments(&mut self, given: &Variables) {
        for (name, text) in &given.arguments {
            if self.declared.contains_key(name) {
                self.assign_text(name, &format!("-var {name}"), text);
            } else {
                let source = Source::new("-var", format!("{name}={text}"));
                self.undeclared(&source, &(0..name.len()), name);
            }
        }
    }

    fn undeclared(&mut self, source: &Source, span: &Span, name: &str) {
        // The search for a near name is dear among thousands: none once nobody would read it.
        let wanted = if self.problems.is_full() {
            0
        } else {
            usize::MAX
        };
        let names = self.declared.keys().map(String::as_str).take(wanted);
        let hint = closest(name, names).map(|known| format!("did you mean `{known}`?"));
        let message = format!("the job file declares no variable `{name}`");
        self.problems.report(source, span, message, hint);
    }

    /// A value as text: itself for strings, an expression for everything else.
    fn assign_text(&mut self, name: &str, origin: &str, text: &str) {
        let Some(declaration) = self.declared.get(name) else {
            return;
        };
        let wanted = declaration.wanted.clone();
        let source = Source::new(origin, text);
        let literal = matches!(wanted, TypeConstraint::String | TypeConstraint::Any);
        let outcome = if literal {
            Ok(Value::string(text))
        } else {
            parse_expression(&source).and_then(|expression| {
                let value = constant(&source, self.machine, &expression)?;
                wanted
                    .convert(value)
                    .map_err(|m| EvalError::new(0..text.len(), m))
            })
        };
        self.assign(name, &source, outcome);
    }

    fn assign(&mut self, name: &str, source: &Source, outcome: Outcome<Value>) {
        match outcome {
            Ok(value) => {
                if let Some(declaration) = self.declared.get_mut(name) {
                    declaration.value = Some(value);
                }
            }
            Err(mut error) => {
                self.machine.broken.insert(format!("var.{name}"));
                error.message = format!("variable `{name}`: {}", error.message);
                Problems {
                    source,
                    list: self.problems,
                }
                .report_error(error);
            }
        }
    }

    fn assign_file(&mut self, file: &VariableFile) {
        let source = Source::new(file.name.as_str(), file.text.as_str());
        if file.text.len() > SOURCE_BYTES_MAX {
            self.problems
                .report(&source, &(0..0), "the file is too large", None);
            return;
        }
        if file.text.trim_start().starts_with('{') {
            self.assign_json(&source);
            return;
        }
        match hcl_edit::parser::parse_body(&file.text) {
            Ok(body) => body.iter().for_each(|s| self.assign_structure(&source, s)),
            Err(error) => self.problems.push(crate::syntax_error(&source, &error)),
        }
    }

    fn assign_structure(&mut self, source: &Source, structure: &Structure) {
        let Attribute { key, value, .. } = match structure {
            Structure::Attribute(attribute) => attribute,
            Structure::Block(block) => {
                let message = "a variable file holds `name = value` lines only";
                self.problems
                    .report(source, &span_of(&block.ident), message, None);
                return;
            }
        };
        let name = key.value().as_str();
        let Some(declaration) = self.declared.get(name) else {
            self.undeclared(source, &span_of(key), name);
            return;
        };
        let wanted = declaration.wanted.clone();
        let outcome = constant(source, self.machine, value).and_then(|found| {
            wanted
                .convert(found)
                .map_err(|message| EvalError::new(span_of(value), message))
        });
        self.assign(name, source, outcome);
    }

    fn assign_json(&mut self, source: &Source) {
        let entries: BTreeMap<String, serde_json::Value> = match serde_json::from_str(&source.text)
        {
            Ok(entries) => entries,
            Err(error) => {
                self.problems.push(crate::json::error(source, 0, &error));
                return;
            }
        };
        for (name, json) in entries {
            let place = source
                .text
                .find(&format!("\"{name}\""))
                .map_or(0..0, |start| start + 1..start + 1 + name.len());
            let Some(declaration) = self.declared.get(&name) else {
                self.undeclared(source, &place, &name);
                continue;
            };
            let converted = declaration.wanted.convert(Value::from_json(json));
            let outcome = converted.map_err(|message| EvalError::new(place, message));
            self.assign(&name, source, outcome);
        }
    }

    fn validate(&mut self) {
        let mut failures = Vec::new();
        for (name, declaration) in &self.declared {
            let Some(value) = &declaration.value else {
                continue;
            };
            for validation in &declaration.validations {
                let mut scope = Scope::root(Unknown::PassThrough);
                scope.map_mut("var").insert(name.clone(), value.clone());
                let mut evaluator = Evaluator {
                    source: self.source,
                    machine: self.machine,
                };
                if let Err(error) = check(&mut evaluator, validation, name, declaration, &scope) {
                    failures.push((name.clone(), error));
                }
            }
        }
        for (name, error) in failures {
            self.report_error(&name, error);
        }
    }

    /// Defines `var`; a variable without any value is an error that says how to give one.
    fn finish(self, scope: &mut Scope<'_>) {
        let values = scope.map_mut("var");
        for (name, declaration) in self.declared {
            match declaration.value {
                Some(value) => {
                    values.insert(name, value);
                }
                None => {
                    if self.machine.broken.insert(format!("var.{name}")) {
                        let message = format!("the variable `{name}` has no value");
                        let hint = format!(
                            "give it with -var {name}=VALUE, in a -var-file, or as NOMAD_VAR_{name}"
                        );
                        let span = declaration.span;
                        self.problems
                            .report(self.source, &span, message, Some(hint));
                    }
                }
            }
        }
    }
}

/// An expression that may use functions but no names.
fn constant(source: &Source, machine: &mut Machine<'_>, expression: &Expression) -> Outcome<Value> {
    Evaluator { source, machine }.eval(expression, &Scope::root(Unknown::Refuse))
}

fn parse_expression(source: &Source) -> Outcome<Expression> {
    hcl_edit::parser::parse_expr(source.text.trim()).map_err(|error| {
        EvalError::new(
            error.location().offset()..error.location().offset() + 1,
            error.message(),
        )
        .hint("texts of lists and maps need their quotes: [\"a\", \"b\"]")
    })
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

fn check(
    evaluator: &mut Evaluator<'_, '_>,
    validation: &Body,
    name: &str,
    declaration: &Declaration<'_>,
    scope: &Scope<'_>,
) -> Outcome<()> {
    let Some(condition) = validation.get_attribute("condition") else {
        return Err(EvalError::new(
            declaration.span.clone(),
            "`validation` needs a `condition`",
        ));
    };
    if evaluator.condition(&condition.value, scope)? {
        return Ok(());
    }
    let text = match validation.get_attribute("error_message") {
        Some(message) => evaluator.eval(&message.value, scope)?.to_text(),
        None => None,
    };
    let text = text.unwrap_or_else(|| "its validation failed".to_owned());
    Err(EvalError::new(
        declaration.span.clone(),
        format!("variable `{name}`: {text}"),
    ))
}
