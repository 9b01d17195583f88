//! What could not be read of a text, and which names are unknown for that reason.

use super::statement::word_end;
use crate::diagnostic::{Source, Span};
use crate::eval::span_of;
use hcl_edit::structure::Body;

/// The statements that were taken out of a text before the rest could be parsed.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    spans: Vec<Span>,
}

impl Damage {
    pub(super) fn new(spans: Vec<Span>) -> Self {
        Self { spans }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Whether something is missing within `span`.
    pub(crate) fn touches(&self, span: &Span) -> bool {
        self.spans
            .iter()
            .any(|lost| span.start <= lost.start && lost.end <= span.end)
    }

    /// The names at the start of what is missing: attributes of a variable file.
    pub(crate) fn words<'s>(&'s self, source: &'s Source) -> impl Iterator<Item = &'s str> {
        self.spans
            .iter()
            .map(|span| word(source.slice(span.clone())))
    }

    /// The variables and locals (`var.x`) that a job file would define if it could be read whole;
    /// `local.*` where no names are known.
    pub(crate) fn broken_names(&self, source: &Source, body: &Body) -> Vec<String> {
        let mut names = Vec::new();
        for span in &self.spans {
            let text = source.slice(span.clone());
            let block = body.blocks().find(|block| encloses(&span_of(*block), span));
            let home = block.map_or("", |block| block.ident.value().as_str());
            match (home, block.and_then(|block| block.labels.first())) {
                ("variable", Some(label)) => names.push(format!("var.{}", label.as_str())),
                ("variables", _) => names.push(format!("var.{}", word(text))),
                ("locals", _) => names.push(format!("local.{}", word(text))),
                ("", _) => names.extend(lost_block(text)),
                _ => {}
            }
        }
        names
    }
}

fn encloses(outer: &Span, inner: &Span) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// What a whole block would have defined.
fn lost_block(text: &str) -> Option<String> {
    match word(text) {
        "variable" => {
            let label = text["variable".len()..].trim_start();
            let label = label.trim_start_matches('"');
            Some(format!("var.{}", word(label)))
        }
        "variables" => Some("var.*".to_owned()),
        "locals" => Some("local.*".to_owned()),
        _ => None,
    }
}

fn word(text: &str) -> &str {
    &text[..word_end(text.as_bytes(), 0)]
}
