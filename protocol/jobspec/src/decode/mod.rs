//! Walks a body along a [`Schema`] and makes API JSON of it.
//!
//! ```text
//! body --> attributes --> value.rs   evaluated and converted to the field's kind
//!      `-> blocks ------> dynamic.rs expands `dynamic`, then each block is decoded in turn
//!                         free.rs    bodies that are not ours to check (config, policy)
//!      then the schema's `finish`
//! ```
//!
//! A problem is reported and the walk goes on, so that one pass shows all of a file.

mod dynamic;
mod free;
mod value;
mod view;

pub(crate) use self::view::{BlockView, DecodedBlock, Problems};

use crate::diagnostic::Span;
use crate::eval::{Evaluator, Machine, Scope, span_of};
use crate::schema::{self, Field, Kind, Label, Schema};
use crate::suggestion::closest;
use crate::syntax::Damage;
use hcl_edit::structure::{Attribute, Block, Structure};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

/// Decodes the blocks of one source text.
pub(crate) struct Decoder<'s, 'i> {
    pub(crate) problems: Problems<'s>,
    pub(crate) machine: &'s mut Machine<'i>,
    /// What the text lacks because it could not be read.
    pub(crate) damage: &'s Damage,
}

impl<'i> Decoder<'_, 'i> {
    fn evaluator(&mut self) -> Evaluator<'_, 'i> {
        Evaluator {
            source: self.problems.source,
            machine: &mut *self.machine,
        }
    }

    /// The block as JSON; `None` when it has nothing to say.
    pub(crate) fn block(
        &mut self,
        schema: &'static Schema,
        view: &BlockView<'_>,
        scope: &Scope<'_>,
    ) -> Option<Json> {
        let mut decoded = DecodedBlock {
            object: Map::new(),
            span: view.header_span(),
            dropped: false,
            places: BTreeMap::new(),
        };
        self.labels(schema, view, &mut decoded);
        for structure in view.body {
            if self.problems.list.is_full() {
                return None;
            }
            match structure {
                Structure::Attribute(attribute) => {
                    self.attribute(schema, attribute, scope, &mut decoded);
                }
                Structure::Block(block) => self.nested(schema, block, scope, &mut decoded),
            }
        }
        // What is looked at as a whole must be whole.
        if let Some(finish) = schema.finish
            && !self.damage.touches(&span_of(view.body))
        {
            finish(&mut decoded, &mut self.problems);
        }
        if schema.name == "task" {
            let undefined = &mut self.machine.undefined;
            undefined.add_task(span_of(view.body), &decoded.object);
        }
        (!decoded.dropped).then_some(Json::Object(decoded.object))
    }

    fn labels(&mut self, schema: &Schema, view: &BlockView<'_>, decoded: &mut DecodedBlock) {
        let (name, wanted) = (view.name, schema.label);
        match (wanted, view.labels.as_slice()) {
            (Label::None, []) => {}
            (Label::None, [(_, span), ..]) => {
                self.problems
                    .report(span, format!("`{name}` takes no label"), None);
            }
            (Label::Required(key), [(label, span), rest @ ..]) => {
                if label.is_empty() && name != "port" {
                    self.problems
                        .report(span, format!("the name of a `{name}` is empty"), None);
                }
                if let Some((_, span)) = rest.first() {
                    self.problems
                        .report(span, format!("`{name}` takes one label"), None);
                }
                decoded
                    .object
                    .insert(key.to_owned(), Json::String(label.clone()));
            }
            (Label::Required(_), []) => {
                let hint = format!("write `{name} \"NAME\" {{`");
                let message = format!("`{name}` needs a label");
                self.problems.report(&view.name_span, message, Some(hint));
            }
        }
    }

    fn attribute(
        &mut self,
        schema: &'static Schema,
        attribute: &Attribute,
        scope: &Scope<'_>,
        decoded: &mut DecodedBlock,
    ) {
        let name = attribute.key.value().as_str();
        let span = span_of(&attribute.key);
        let Some(field) = schema.field(name) else {
            self.unknown(schema, name, &span, "attribute");
            return;
        };
        if matches!(
            field.kind,
            Kind::Block(_) | Kind::Blocks(_) | Kind::Keyed(_)
        ) {
            let hint = format!("write `{name} {{ ... }}`, without `=`");
            self.problems
                .report(&span, format!("`{name}` is a block"), Some(hint));
            return;
        }
        if self.repeats(field, &span, decoded) {
            return;
        }
        if let Some(json) = self.attribute_value(field, &attribute.value, scope) {
            decoded.object.insert(field.json.to_owned(), json);
        }
    }

    fn nested(
        &mut self,
        schema: &'static Schema,
        block: &Block,
        scope: &Scope<'_>,
        decoded: &mut DecodedBlock,
    ) {
        let view = BlockView::new(block);
        let (name, span) = match (view.name, view.labels.as_slice()) {
            ("dynamic", [(label, span)]) => (label.as_str(), span),
            ("dynamic", _) => {
                let message = "`dynamic` takes one label: the block to make";
                self.problems.report(&view.name_span, message, None);
                return;
            }
            (name, _) => (name, &view.name_span),
        };
        let Some(field) = schema.field(name) else {
            self.unknown(schema, name, span, "block");
            return;
        };
        if !field.kind.is_block() {
            let hint = format!("write `{name} = ...`");
            self.problems.report(
                &view.name_span,
                format!("`{name}` is an attribute"),
                Some(hint),
            );
            return;
        }
        if view.name == "dynamic" {
            self.expand(block, scope, &mut |decoder, made, inner| {
                decoder.place(field, made, inner, decoded);
            });
        } else {
            self.place(field, &view, scope, decoded);
        }
    }

    /// Decodes a nested block and puts it where its field says.
    fn place(
        &mut self,
        field: &'static Field,
        view: &BlockView<'_>,
        scope: &Scope<'_>,
        decoded: &mut DecodedBlock,
    ) {
        let key = field.json.to_owned();
        match field.kind {
            Kind::Blocks(schema) => {
                decoded.remember(field.hcl, view.header_span());
                let Some(json) = self.block(schema, view, scope) else {
                    return;
                };
                let list = decoded
                    .object
                    .entry(key)
                    .or_insert_with(|| Json::Array(Vec::new()));
                if let Json::Array(list) = list {
                    list.push(json);
                }
            }
            Kind::Keyed(schema) => {
                decoded.remember(field.hcl, view.header_span());
                let Some(json) = self.block(schema, view, scope) else {
                    return;
                };
                let Some((label, span)) = view.labels.first() else {
                    return;
                };
                let map = decoded
                    .object
                    .entry(key)
                    .or_insert_with(|| Json::Object(Map::new()));
                if let Json::Object(map) = map
                    && map.insert(label.clone(), json).is_some()
                {
                    let message = format!("there are two `{}` blocks named `{label}`", view.name);
                    self.problems.report(span, message, None);
                }
            }
            Kind::Block(schema) => {
                if self.repeats(field, &view.header_span(), decoded) {
                    return;
                }
                let json = self.block(schema, view, scope);
                decoded.object.extend(json.map(|json| (key, json)));
            }
            Kind::Free => {
                if self.repeats(field, &view.header_span(), decoded) {
                    return;
                }
                self.no_labels(view);
                let json = self.free_body(view.body, scope);
                decoded.object.insert(key, Json::Object(json));
            }
            Kind::TextMap | Kind::TextsMap => {
                if self.repeats(field, &view.header_span(), decoded) {
                    return;
                }
                self.no_labels(view);
                let json = self.pairs_body(field.kind, view, scope);
                decoded.object.insert(key, Json::Object(json));
            }
            Kind::Text
            | Kind::Choice(_)
            | Kind::Bool
            | Kind::Whole { .. }
            | Kind::Duration
            | Kind::Texts
            | Kind::Wholes => unreachable!("the caller lets blocks in only"),
        }
    }

    fn no_labels(&mut self, view: &BlockView<'_>) {
        if let Some((_, span)) = view.labels.first() {
            self.problems
                .report(span, format!("`{}` takes no label", view.name), None);
        }
    }

    /// Reports a second appearance of what may appear once; remembers the first.
    fn repeats(&mut self, field: &'static Field, span: &Span, decoded: &mut DecodedBlock) -> bool {
        if let Some(first) = decoded.spans_of(field.hcl).first() {
            let line = self.problems.source.diagnostic(first, "", None).line;
            let message = format!("`{}` is there already", field.hcl);
            self.problems.report(
                span,
                message,
                Some(format!("the first one is in line {line}")),
            );
            return true;
        }
        decoded.remember(field.hcl, span.clone());
        false
    }

    fn unknown(&mut self, schema: &Schema, name: &str, span: &Span, what: &str) {
        let message = format!("`{}` has no {what} `{name}`", schema.name);
        let names = schema.fields.iter().map(|field| field.hcl);
        let hint = match (schema::home_of(name), closest(name, names)) {
            (Some(home), _) => Some(format!("`{name}` belongs into `{home}`")),
            (None, Some(known)) => Some(format!("did you mean `{known}`?")),
            (None, None) => None,
        };
        self.problems.report(span, message, hint);
    }
}
