//! The rules that a file sets for the values of its variables.

use super::VariableSet;
use super::declaration::Declaration;
use crate::eval::{EvalError, Evaluator, Outcome, Scope, Unknown, span_of};
use crate::references;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Structure};

/// One rule.
struct Rule<'b> {
    condition: &'b Expression,
    error_message: &'b Expression,
}

impl VariableSet<'_, '_, '_> {
    pub(super) fn validate(&mut self) {
        let mut failures = Vec::new();
        for (name, declaration) in &self.declared {
            for block in &declaration.validations {
                let rule = match rule(block, name) {
                    Ok(rule) => rule,
                    Err(error) => {
                        failures.push((name.clone(), error));
                        continue;
                    }
                };
                let Some(value) = &declaration.value else {
                    continue;
                };
                let mut scope = Scope::root(Unknown::PassThrough);
                scope.map_mut("var").insert(name.clone(), value.clone());
                let mut evaluator = Evaluator {
                    source: self.source,
                    machine: self.machine,
                };
                if let Err(error) = check(&mut evaluator, &rule, name, declaration, &scope) {
                    failures.push((name.clone(), error));
                }
            }
        }
        for (name, error) in failures {
            self.report_error(&name, error);
        }
    }
}

/// Takes a `validation` block apart. A rule sees its own variable and nothing else.
fn rule<'b>(block: &'b Block, name: &str) -> Outcome<Rule<'b>> {
    let (mut condition, mut error_message) = (None, None);
    for structure in &block.body {
        let (key, span) = match structure {
            Structure::Attribute(attribute) => match attribute.key.value().as_str() {
                "condition" => {
                    condition = Some(&attribute.value);
                    continue;
                }
                "error_message" => {
                    error_message = Some(&attribute.value);
                    continue;
                }
                other => (other, span_of(&attribute.key)),
            },
            Structure::Block(inner) => (inner.ident.value().as_str(), span_of(&inner.ident)),
        };
        return Err(EvalError::new(span, format!("`validation` has no `{key}`")));
    }
    let missing = |what: &str| {
        let message = format!("`validation` needs `{what}`");
        EvalError::new(span_of(&block.ident), message)
    };
    let condition = condition.ok_or_else(|| missing("condition"))?;
    let used = references::of("var", condition);
    if used.len() != 1 || !used.contains(name) {
        let message = format!("a rule for `{name}` looks at `var.{name}` and no other variable");
        return Err(EvalError::new(span_of(condition), message));
    }
    Ok(Rule {
        condition,
        error_message: error_message.ok_or_else(|| missing("error_message"))?,
    })
}

fn check(
    evaluator: &mut Evaluator<'_, '_>,
    rule: &Rule<'_>,
    name: &str,
    declaration: &Declaration<'_>,
    scope: &Scope<'_>,
) -> Outcome<()> {
    if evaluator.condition(rule.condition, scope)? {
        return Ok(());
    }
    let text = evaluator.eval(rule.error_message, scope)?.to_text();
    let text = text.ok_or_else(|| {
        let place = span_of(rule.error_message);
        EvalError::new(place, "this must be a string")
    })?;
    Err(EvalError::new(
        declaration.span.clone(),
        format!("variable `{name}`: {text}"),
    ))
}
