//! Bodies whose inside belongs to someone else: a driver's `config`, a scaling `policy`. Nested
//! blocks become arrays of objects, because nothing here knows which may repeat; a label becomes
//! an object around the block.

use super::{BlockView, Decoder};
use crate::eval::{Scope, span_of};
use crate::value::Value;
use hcl_edit::structure::{Body, Structure};
use serde_json::{Map, Value as Json, json};

impl Decoder<'_, '_> {
    pub(super) fn free_body(&mut self, body: &Body, scope: &Scope<'_>) -> Map<String, Json> {
        let mut object = Map::new();
        for structure in body {
            if self.problems.list.is_full() {
                break;
            }
            match structure {
                Structure::Attribute(attribute) => {
                    let name = attribute.key.value().as_str();
                    let value = self.evaluate(&attribute.value, scope);
                    let Some(value) = value.filter(|value| *value != Value::Null) else {
                        continue;
                    };
                    if object.insert(name.to_owned(), value.into_json()).is_some() {
                        self.both(name, &span_of(&attribute.key));
                    }
                }
                Structure::Block(block) if block.ident.value().as_str() == "dynamic" => {
                    self.expand(block, scope, &mut |decoder, made, inner| {
                        decoder.free_block(made, inner, &mut object);
                    });
                }
                Structure::Block(block) => {
                    self.free_block(&BlockView::new(block), scope, &mut object);
                }
            }
        }
        object
    }

    fn free_block(
        &mut self,
        view: &BlockView<'_>,
        scope: &Scope<'_>,
        object: &mut Map<String, Json>,
    ) {
        let inner = Json::Object(self.free_body(view.body, scope));
        let labels = view.labels.iter().rev();
        let wrapped = labels.fold(inner, |inner, (label, _)| json!({ label: [inner] }));
        let list = object
            .entry(view.name)
            .or_insert_with(|| Json::Array(Vec::new()));
        match list {
            Json::Array(list) if list.iter().all(Json::is_object) => list.push(wrapped),
            _ => self.both(view.name, &view.name_span),
        }
    }

    fn both(&mut self, name: &str, span: &crate::diagnostic::Span) {
        self.problems.report(
            span,
            format!("`{name}` is both an attribute and a block"),
            None,
        );
    }
}
