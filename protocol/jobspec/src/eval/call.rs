//! Function calls. Arguments are evaluated first, except those of `try` and `can`, which exist to
//! look at expressions that may fail.

use super::{EvalError, Evaluator, Outcome, Scope, span_of};
use crate::diagnostic::Span;
use crate::functions::{self, Blame, Context};
use crate::suggestion::closest;
use crate::type_constraint::TypeConstraint;
use crate::value::Value;
use hcl_edit::expr::FuncCall;

/// What a caught error costs of the budget: making its message is dearer than most expressions.
const FAILURE_COST: u64 = 16 * 1024;

impl Evaluator<'_, '_> {
    pub(super) fn call(
        &mut self,
        call: &FuncCall,
        span: Span,
        scope: &Scope<'_>,
    ) -> Outcome<Value> {
        let name = call.name.name.value().as_str();
        if call.name.is_namespaced() {
            return Err(EvalError::new(
                span,
                "there are no functions with namespaces",
            ));
        }
        match name {
            "try" => return self.call_try(call, span, scope),
            "can" => return self.call_can(call, span, scope),
            "convert" => return self.call_convert(call, span, scope),
            _ => {}
        }
        let Some(function) = functions::find(name) else {
            let error = EvalError::new(span, format!("there is no function `{name}`"));
            return Err(match closest(name, functions::names()) {
                Some(known) => error.hint(format!("did you mean `{known}`?")),
                None => error,
            });
        };

        let mut arguments = Vec::with_capacity(call.args.len());
        for argument in call.args.iter() {
            arguments.push(self.eval(argument, scope)?);
        }
        if call.args.expand_final() {
            expand_last(&mut arguments, call)?;
        }
        function
            .arity
            .check(name, arguments.len())
            .map_err(|m| EvalError::new(span.clone(), m))?;

        let mut context = Context {
            machine: &mut *self.machine,
        };
        let value = (function.body)(&mut context, &arguments).map_err(|failure| {
            let place = match failure.blame {
                Blame::Call => None,
                Blame::Argument(position) => call.args.get(position).map(span_of),
            };
            let mut error =
                EvalError::new(place.unwrap_or_else(|| span.clone()), failure.text(name));
            error.fatal = failure.fatal;
            error.hint = failure.hint;
            error
        })?;
        self.spend_value(&value, &span)?;
        Ok(value)
    }

    /// The first argument that evaluates.
    fn call_try(&mut self, call: &FuncCall, span: Span, scope: &Scope<'_>) -> Outcome<Value> {
        let mut failures = Vec::new();
        for argument in call.args.iter() {
            match self.eval(argument, scope) {
                Err(error) if !error.fatal => {
                    self.spend(FAILURE_COST, &error.span)?;
                    failures.push(error.message);
                }
                decided => return decided,
            }
        }
        if failures.is_empty() {
            return Err(EvalError::new(span, "try() needs at least one argument"));
        }
        let message = format!("try(): no argument has a value: {}", failures.join("; "));
        Err(EvalError::new(span, message))
    }

    fn call_can(&mut self, call: &FuncCall, span: Span, scope: &Scope<'_>) -> Outcome<Value> {
        let (Some(argument), 1) = (call.args.get(0), call.args.len()) else {
            return Err(EvalError::new(span, "can() takes exactly one argument"));
        };
        match self.eval(argument, scope) {
            Ok(_) => Ok(Value::Bool(true)),
            Err(error) if error.fatal => Err(error),
            Err(error) => {
                self.spend(FAILURE_COST, &error.span)?;
                Ok(Value::Bool(false))
            }
        }
    }
}

impl Evaluator<'_, '_> {
    /// `convert(value, type)`.
    fn call_convert(&mut self, call: &FuncCall, span: Span, scope: &Scope<'_>) -> Outcome<Value> {
        let (Some(argument), Some(wanted), 2) =
            (call.args.get(0), call.args.get(1), call.args.len())
        else {
            return Err(EvalError::new(span, "convert() takes a value and a type"));
        };
        let wanted = TypeConstraint::from_expression(wanted)?;
        let value = self.eval(argument, scope)?;
        wanted
            .convert(value)
            .map_err(|message| EvalError::new(span_of(argument), format!("convert(): {message}")))
    }
}

/// `f(a, list...)`: the elements of the last argument become arguments.
fn expand_last(arguments: &mut Vec<Value>, call: &FuncCall) -> Outcome<()> {
    let place = call
        .args
        .len()
        .checked_sub(1)
        .and_then(|last| call.args.get(last))
        .map(span_of);
    match arguments.pop() {
        Some(Value::List(elements) | Value::Set(elements)) => {
            arguments.extend(elements);
            Ok(())
        }
        Some(other) => {
            let message = format!(
                "only a list can be followed by `...`, this is {}",
                other.kind()
            );
            Err(EvalError::new(place.unwrap_or(0..0), message))
        }
        None => Ok(()),
    }
}
