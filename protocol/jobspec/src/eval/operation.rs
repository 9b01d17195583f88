//! Operators and conditionals. Strings that spell a number or a boolean count as one, as in the
//! original language; `==` alone compares without conversion. `&&`, `||` and `?:` evaluate only
//! the side that decides.

use super::{EvalError, Evaluator, Outcome, Scope, span_of};
use crate::value::{Number, Value};
use hcl_edit::expr::{BinaryOp, BinaryOperator, Conditional, Expression, UnaryOp, UnaryOperator};
use std::cmp::Ordering;

impl Evaluator<'_, '_> {
    pub(super) fn conditional(
        &mut self,
        conditional: &Conditional,
        scope: &Scope<'_>,
    ) -> Outcome<Value> {
        let chosen = if self.condition(&conditional.cond_expr, scope)? {
            &conditional.true_expr
        } else {
            &conditional.false_expr
        };
        self.eval(chosen, scope)
    }

    /// An expression that must be true or false.
    pub(crate) fn condition(
        &mut self,
        expression: &Expression,
        scope: &Scope<'_>,
    ) -> Outcome<bool> {
        let value = self.eval(expression, scope)?;
        value.to_bool().ok_or_else(|| {
            let message = format!("this must be true or false, it is {}", value.kind());
            EvalError::new(span_of(expression), message)
        })
    }

    pub(super) fn unary(&mut self, operation: &UnaryOp, scope: &Scope<'_>) -> Outcome<Value> {
        match operation.operator.value() {
            UnaryOperator::Not => Ok(Value::Bool(!self.condition(&operation.expr, scope)?)),
            UnaryOperator::Neg => {
                let number = match self.number(&operation.expr, scope)? {
                    Number::Whole(whole) => whole.checked_neg().map(Number::Whole),
                    Number::Float(float) => Number::float(-float),
                };
                number
                    .map(Value::Number)
                    .ok_or_else(|| out_of_range(&operation.expr))
            }
        }
    }

    pub(super) fn binary(&mut self, operation: &BinaryOp, scope: &Scope<'_>) -> Outcome<Value> {
        let (left, right) = (&operation.lhs_expr, &operation.rhs_expr);
        let operator = *operation.operator.value();
        match operator {
            BinaryOperator::And => Ok(Value::Bool(
                self.condition(left, scope)? && self.condition(right, scope)?,
            )),
            BinaryOperator::Or => Ok(Value::Bool(
                self.condition(left, scope)? || self.condition(right, scope)?,
            )),
            BinaryOperator::Eq => Ok(Value::Bool(self.equal(left, right, scope)?)),
            BinaryOperator::NotEq => Ok(Value::Bool(!self.equal(left, right, scope)?)),
            BinaryOperator::Less
            | BinaryOperator::LessEq
            | BinaryOperator::Greater
            | BinaryOperator::GreaterEq => {
                let order = self.number(left, scope)?.order(self.number(right, scope)?);
                Ok(Value::Bool(holds(operator, order)))
            }
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Mul
            | BinaryOperator::Div
            | BinaryOperator::Mod => {
                let (a, b) = (self.number(left, scope)?, self.number(right, scope)?);
                if matches!(operator, BinaryOperator::Div | BinaryOperator::Mod)
                    && b == Number::Whole(0)
                {
                    return Err(EvalError::new(span_of(right), "division by zero"));
                }
                arithmetic(operator, a, b)
                    .map(Value::Number)
                    .ok_or_else(|| out_of_range(left))
            }
        }
    }

    fn equal(&mut self, left: &Expression, right: &Expression, scope: &Scope<'_>) -> Outcome<bool> {
        let (a, b) = (self.eval(left, scope)?, self.eval(right, scope)?);
        for side in [left, right] {
            self.warn_of_placeholder(side, scope);
        }
        Ok(a.order(&b) == Ordering::Equal)
    }

    /// What the node fills in has no value yet: comparing it has one answer on every node.
    fn warn_of_placeholder(&mut self, side: &Expression, scope: &Scope<'_>) {
        let root = match side {
            Expression::Variable(name) => Some(name),
            Expression::Traversal(traversal) => match &traversal.expr {
                Expression::Variable(name) => Some(name),
                _ => None,
            },
            _ => None,
        };
        if root.is_some_and(|name| scope.lookup(name.value().as_str()).is_none()) {
            let span = span_of(side);
            let name = self.source.slice(span.clone());
            let message = format!("`{name}` is known on the node only: here it is a mere text");
            let hint = "a `constraint` compares what differs between nodes".to_owned();
            let warnings = &mut self.machine.warnings;
            warnings.report(self.source, &span, message, Some(hint));
        }
    }

    fn number(&mut self, expression: &Expression, scope: &Scope<'_>) -> Outcome<Number> {
        let value = self.eval(expression, scope)?;
        value.to_number().ok_or_else(|| {
            let message = format!("this must be a number, it is {}", value.kind());
            EvalError::new(span_of(expression), message)
        })
    }
}

fn out_of_range(expression: &Expression) -> EvalError {
    EvalError::new(span_of(expression), "the result is out of range")
}

fn holds(operator: BinaryOperator, order: Ordering) -> bool {
    match operator {
        BinaryOperator::Less => order.is_lt(),
        BinaryOperator::LessEq => order.is_le(),
        BinaryOperator::Greater => order.is_gt(),
        BinaryOperator::GreaterEq => order.is_ge(),
        BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Mul
        | BinaryOperator::Div
        | BinaryOperator::Mod
        | BinaryOperator::And
        | BinaryOperator::Or => unreachable!("called for orderings only"),
    }
}

/// `None` when the result is not a finite number. `b` is not zero for division and remainder.
fn arithmetic(operator: BinaryOperator, a: Number, b: Number) -> Option<Number> {
    if let (Number::Whole(x), Number::Whole(y)) = (a, b) {
        let exact = match operator {
            BinaryOperator::Plus => x.checked_add(y),
            BinaryOperator::Minus => x.checked_sub(y),
            BinaryOperator::Mul => x.checked_mul(y),
            BinaryOperator::Div if x.checked_rem(y) == Some(0) => x.checked_div(y),
            BinaryOperator::Mod => x.checked_rem(y),
            _ => None,
        };
        if let Some(exact) = exact {
            return Some(Number::Whole(exact));
        }
    }
    let (x, y) = (a.as_f64(), b.as_f64());
    Number::float(match operator {
        BinaryOperator::Plus => x + y,
        BinaryOperator::Minus => x - y,
        BinaryOperator::Mul => x * y,
        BinaryOperator::Div => x / y,
        BinaryOperator::Mod => x % y,
        _ => return None,
    })
}
