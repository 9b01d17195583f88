//! Which names below a root an expression uses: the `x` of every `local.x` and `local["x"]`.

use hcl_edit::expr::{Expression, Traversal, TraversalOperator};
use hcl_edit::visit::{Visit, visit_traversal};
use std::collections::BTreeSet;

/// Collects names below one root.
#[derive(Debug)]
struct References {
    root: &'static str,
    names: BTreeSet<String>,
}

/// The names below `root` that `expression` uses.
pub(crate) fn of(root: &'static str, expression: &Expression) -> BTreeSet<String> {
    let mut references = References {
        root,
        names: BTreeSet::new(),
    };
    references.visit_expr(expression);
    references.names
}

impl Visit for References {
    fn visit_traversal(&mut self, traversal: &Traversal) {
        if let Expression::Variable(root) = &traversal.expr
            && root.value().as_str() == self.root
        {
            match traversal.operators.first().map(|operator| operator.value()) {
                Some(TraversalOperator::GetAttr(name)) => {
                    self.names.insert(name.value().as_str().to_owned());
                }
                Some(TraversalOperator::Index(Expression::String(name))) => {
                    self.names.insert(name.value().clone());
                }
                _ => {}
            }
        }
        visit_traversal(self, traversal);
    }
}
