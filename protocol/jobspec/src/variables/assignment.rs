//! Values that are given for the variables of a file.

use super::declaration::{Declaration, Form, Secrecy};
use super::{VariableSet, constant};
use crate::SOURCE_BYTES_MAX;
use crate::decode::Problems;
use crate::diagnostic::{Diagnostic, Source, Span};
use crate::eval::{EvalError, Outcome, span_of};
use crate::inputs::{VariableFile, Variables};
use crate::suggestion::closest;
use crate::syntax::{self, Syntax, flush_expression};
use crate::text::without_mark;
use crate::type_constraint::TypeConstraint;
use crate::value::Value;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Attribute, Structure};
use std::collections::BTreeMap;

/// Prefixes of environment variables, weakest first.
const ENVIRONMENT_PREFIXES: [&str; 2] = ["NOMAD_VAR_", "DROVER_VAR_"];

impl VariableSet<'_, '_, '_> {
    pub(super) fn assign_environment(&mut self, given: &Variables) {
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

    pub(super) fn assign_arguments(&mut self, given: &Variables) {
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
        let is_text = declaration.form == Form::Literal || wanted == TypeConstraint::String;
        let source = Source::new(origin, if is_text { text } else { text.trim() });
        let outcome = if is_text {
            Ok(Value::string(text))
        } else if source.text.is_empty() {
            let message = format!("{wanted} is required, this is empty");
            Err(EvalError::new(0..0, message))
        } else {
            parse_expression(&source).and_then(|expression| {
                let value = constant(&source, self.machine, &expression)?;
                wanted
                    .convert(value)
                    .map_err(|m| EvalError::new(0..source.text.len(), m))
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
                self.break_one(name);
                if let Some(declaration) = self.declared.get(name)
                    && declaration.secrecy == Secrecy::Sensitive
                {
                    let shown = hidden(name, declaration, source, &error.span);
                    self.problems.push(shown);
                    return;
                }
                error.message = format!("variable `{name}`: {}", error.message);
                Problems {
                    source,
                    list: self.problems,
                }
                .report_error(error);
            }
        }
    }

    pub(super) fn assign_file(&mut self, file: &VariableFile) {
        if file.text.len() > SOURCE_BYTES_MAX {
            let source = Source::new(file.name.as_str(), "");
            self.problems
                .report(&source, &(0..0), "the file is too large", None);
            return;
        }
        let source = Source::new(file.name.as_str(), without_mark(&file.text));
        if source.text.trim_start().starts_with('{') {
            self.assign_json(&source);
            return;
        }
        let Syntax { body, damage } = syntax::parse(&source, self.problems);
        match damage {
            Some(damage) => damage.words(&source).for_each(|name| self.break_one(name)),
            None => self.break_all(),
        }
        for structure in &body {
            self.assign_structure(&source, structure);
        }
    }

    /// Any value may have stood in a file that cannot be read.
    fn break_all(&mut self) {
        let names: Vec<String> = self.declared.keys().cloned().collect();
        names.iter().for_each(|name| self.break_one(name));
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
                self.break_all();
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
}

/// Where a sensitive value is wrong, without the value.
fn hidden(name: &str, declaration: &Declaration<'_>, source: &Source, span: &Span) -> Diagnostic {
    let wanted = &declaration.wanted;
    let message = format!("variable `{name}`: {wanted} is required; the value is not shown");
    Diagnostic {
        snippet: String::new(),
        ..source.diagnostic(span, message, None)
    }
}

fn parse_expression(source: &Source) -> Outcome<Expression> {
    let mut expression = hcl_edit::parser::parse_expr(&source.text).map_err(|error| {
        EvalError::new(
            error.location().offset()..error.location().offset() + 1,
            error.message(),
        )
        .hint("texts of lists and maps need their quotes: [\"a\", \"b\"]")
    })?;
    flush_expression(&mut expression, &source.text);
    Ok(expression)
}
