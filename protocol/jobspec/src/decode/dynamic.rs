//! `dynamic` blocks: one block of the labelled kind for every element of `for_each`.
//!
//! ```text
//! dynamic "port" {            --> port "http" { static = 80 }
//!   for_each = var.ports          port "https" { static = 443 }
//!   iterator = p        (default: the label)
//!   labels   = [p.key]
//!   content { static = p.value }
//! }
//! ```

use super::{BlockView, Decoder};
use crate::diagnostic::Span;
use crate::eval::{EvalError, Scope, span_of};
use crate::value::Value;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Structure};
use std::collections::BTreeMap;

/// What one made block costs of the budget, beyond its values: an empty one takes memory too.
const MADE_BLOCK_COST: u64 = 1024;

type Each<'e, 's, 'i> = dyn FnMut(&mut Decoder<'s, 'i>, &BlockView<'_>, &Scope<'_>) + 'e;

/// The parts of a `dynamic` block.
struct Recipe<'b> {
    for_each: &'b Expression,
    iterator: String,
    labels: Option<&'b Expression>,
    content: &'b Block,
}

impl<'s, 'i> Decoder<'s, 'i> {
    /// Calls `each` for every block that `block` makes, with the scope of its content.
    pub(super) fn expand(&mut self, block: &Block, scope: &Scope<'_>, each: &mut Each<'_, 's, 'i>) {
        if let Err(error) = self.expand_all(block, scope, each) {
            self.problems.report_error(error);
        }
    }

    fn expand_all(
        &mut self,
        block: &Block,
        scope: &Scope<'_>,
        each: &mut Each<'_, 's, 'i>,
    ) -> Result<(), EvalError> {
        let span = span_of(&block.ident);
        let [label] = block.labels.as_slice() else {
            return Err(EvalError::new(
                span,
                "`dynamic` takes one label: the block to make",
            ));
        };
        let recipe = match recipe(block, label.as_str(), &span) {
            // The missing part may be the one that could not be read.
            Err(_) if self.damage.touches(&span_of(block)) => return Ok(()),
            recipe => recipe?,
        };
        for (key, value) in self.evaluator().collection(recipe.for_each, scope)? {
            if self.problems.list.is_full() {
                return Ok(());
            }
            self.evaluator().spend(MADE_BLOCK_COST, &span)?;
            let mut inner = scope.child();
            let pair = BTreeMap::from([("key".to_owned(), key), ("value".to_owned(), value)]);
            inner.define(recipe.iterator.as_str(), Value::Map(pair));
            let view = BlockView {
                name: label.as_str(),
                name_span: span_of(label),
                labels: self.made_labels(&recipe, &inner)?,
                body: &recipe.content.body,
            };
            each(self, &view, &inner);
        }
        Ok(())
    }

    fn made_labels(
        &mut self,
        recipe: &Recipe<'_>,
        scope: &Scope<'_>,
    ) -> Result<Vec<(String, Span)>, EvalError> {
        let Some(expression) = recipe.labels else {
            return Ok(Vec::new());
        };
        let span = span_of(expression);
        let value = self.evaluator().eval(expression, scope)?;
        let labels = value.elements().map(|elements| {
            elements
                .iter()
                .map(|label| label.to_text().map(|label| (label, span.clone())))
        });
        labels
            .and_then(Iterator::collect::<Option<Vec<_>>>)
            .ok_or_else(|| EvalError::new(span, "`labels` must be a list of strings"))
    }
}

fn recipe<'b>(block: &'b Block, label: &str, span: &Span) -> Result<Recipe<'b>, EvalError> {
    let (mut for_each, mut iterator, mut labels, mut content) = (None, None, None, None);
    for structure in &block.body {
        match structure {
            Structure::Attribute(attribute) => match attribute.key.value().as_str() {
                "for_each" => for_each = Some(&attribute.value),
                "labels" => labels = Some(&attribute.value),
                "iterator" => iterator = Some(iterator_name(&attribute.value)?),
                other => {
                    let message = format!("`dynamic` has no attribute `{other}`");
                    let error = EvalError::new(span_of(&attribute.key), message);
                    return Err(
                        error.hint("put the contents of the generated block into `content`")
                    );
                }
            },
            Structure::Block(inner) if inner.ident.value().as_str() == "content" => {
                if content.replace(inner).is_some() {
                    let place = span_of(&inner.ident);
                    return Err(EvalError::new(place, "`dynamic` has one `content`"));
                }
            }
            Structure::Block(inner) => {
                let message = format!("`dynamic` has no block `{}`", inner.ident.value());
                return Err(EvalError::new(span_of(&inner.ident), message));
            }
        }
    }
    let missing = |what: &str| EvalError::new(span.clone(), format!("`dynamic` needs `{what}`"));
    Ok(Recipe {
        for_each: for_each.ok_or_else(|| missing("for_each"))?,
        iterator: iterator.unwrap_or_else(|| label.to_owned()),
        labels,
        content: content.ok_or_else(|| missing("content"))?,
    })
}

fn iterator_name(expression: &Expression) -> Result<String, EvalError> {
    match expression {
        Expression::Variable(name) => Ok(name.value().as_str().to_owned()),
        Expression::String(name) => Ok(name.value().clone()),
        other => Err(EvalError::new(span_of(other), "`iterator` must be a name")),
    }
}
