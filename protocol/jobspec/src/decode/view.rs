//! A block on its way from the syntax tree to JSON, and where its problems go.

use crate::diagnostic::{Diagnostics, Source, Span};
use crate::eval::{EvalError, span_of};
use hcl_edit::structure::{Block, Body};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

/// Where problems of one source text go.
pub(crate) struct Problems<'s> {
    pub(crate) source: &'s Source,
    pub(crate) list: &'s mut Diagnostics,
}

impl Problems<'_> {
    pub(crate) fn report(&mut self, span: &Span, message: impl Into<String>, hint: Option<String>) {
        self.list.report(self.source, span, message, hint);
    }

    pub(crate) fn report_error(&mut self, error: EvalError) {
        error.report(self.source, self.list);
    }
}

/// One block as JSON, with the places of its parts for messages.
pub(crate) struct DecodedBlock {
    pub(crate) object: Map<String, Json>,
    /// The block's name and labels.
    pub(crate) span: Span,
    /// Set by `finish` when the block says nothing after all.
    pub(crate) dropped: bool,
    pub(super) places: BTreeMap<&'static str, Vec<Span>>,
}

impl DecodedBlock {
    /// Where the attribute or (the last) nested block of this name stands.
    pub(crate) fn span_of(&self, name: &str) -> Span {
        self.spans_of(name).last().unwrap_or(&self.span).clone()
    }

    /// Where each attribute or nested block of this name stands, in the order of the file.
    pub(crate) fn spans_of(&self, name: &str) -> &[Span] {
        self.places.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn remember(&mut self, name: &'static str, span: Span) {
        self.places.entry(name).or_default().push(span);
    }

    /// Whether the file has the attribute or nested block, be its value right or wrong.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<Json> {
        self.object.remove(key)
    }

    pub(crate) fn default(&mut self, key: &str, value: Json) {
        self.object.entry(key).or_insert(value);
    }
}

/// A block to decode: as written, or made by `dynamic`.
pub(crate) struct BlockView<'b> {
    pub(crate) name: &'b str,
    pub(crate) name_span: Span,
    pub(crate) labels: Vec<(String, Span)>,
    pub(crate) body: &'b Body,
}

impl<'b> BlockView<'b> {
    pub(crate) fn new(block: &'b Block) -> Self {
        let labels = block
            .labels
            .iter()
            .map(|label| (label.as_str().to_owned(), span_of(label)))
            .collect();
        Self {
            name: block.ident.value().as_str(),
            name_span: span_of(&block.ident),
            labels,
            body: &block.body,
        }
    }

    /// A file as one block without a header; messages call it `name`.
    pub(crate) fn of_file(name: &'b str, body: &'b Body) -> Self {
        Self {
            name,
            name_span: 0..0,
            labels: Vec::new(),
            body,
        }
    }

    pub(super) fn header_span(&self) -> Span {
        let end = self
            .labels
            .last()
            .map_or(self.name_span.end, |(_, span)| span.end);
        self.name_span.start..end.max(self.name_span.end)
    }
}
