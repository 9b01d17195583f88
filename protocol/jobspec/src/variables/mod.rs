//! `variable` blocks and the values given for them.
//!
//! ```text
//! declaration.rs  variable "x" { type, default, validation }, variables { x = default }
//!      `--> assignment.rs  environment, variable files, arguments; the last one counts
//!               `--> validation.rs  the rules of the file
//!                        `--> `var` in the scope
//! ```
//!
//! Order of precedence, weakest first: default, environment, variable files, arguments. A text
//! given for a variable that is not a string is read as an expression: `-var 'dcs=["a","b"]'`.

mod assignment;
mod declaration;
mod validation;

use self::declaration::Declaration;
use crate::decode::Problems;
use crate::diagnostic::{Diagnostics, Source, Span};
use crate::eval::{EvalError, Evaluator, Machine, Outcome, Scope, Unknown};
use crate::value::Value;
use hcl_edit::expr::Expression;
use hcl_edit::structure::Body;
use std::collections::BTreeMap;

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

impl VariableSet<'_, '_, '_> {
    fn report(&mut self, span: &Span, message: impl Into<String>, hint: Option<String>) {
        self.problems.report(self.source, span, message, hint);
    }

    fn report_error(&mut self, name: &str, error: EvalError) {
        self.break_one(name);
        Problems {
            source: self.source,
            list: self.problems,
        }
        .report_error(error);
    }

    /// No further word of this variable: why it has no value was said.
    fn break_one(&mut self, name: &str) {
        self.machine.broken.insert(format!("var.{name}"));
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
