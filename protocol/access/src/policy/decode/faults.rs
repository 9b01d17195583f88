//! Errors of rules, with the texts that Nomad has for them.

use super::{Decoder, Mode, Named, RULES_MAX};
use crate::capability::Capability;
use crate::policy::error::{Span, quoted};
use crate::policy::syntax::Item;

/// Longest pattern of a variable's path, in bytes: twice a path, which leaves room for stars.
const PATH_BYTES_MAX: usize = 256;

impl Decoder<'_> {
    pub(super) fn check_path(&mut self, block: &Named<'_>, place: &str) {
        let path = quoted(block.name);
        let fault = if block.name.is_empty() {
            "cannot be empty".to_owned()
        } else if block.name.starts_with('/') {
            "cannot start with a leading '/'".to_owned()
        } else if block.name.len() > PATH_BYTES_MAX {
            let length = block.name.len();
            format!("has {length} bytes, at most {PATH_BYTES_MAX} are allowed")
        } else if block.name.contains(char::is_control) {
            "cannot contain control characters".to_owned()
        } else {
            return;
        };
        let message = format!("Invalid variable path \"{path}\"{place}: {fault}");
        self.invalid(block.span, message);
    }

    pub(super) fn bad_level(&mut self, item: &Item, kind: &str, word: &str, known: &str) {
        let word = quoted(word);
        let message = format!("Invalid {kind} policy: \"{word}\"; it is one of {known}");
        self.invalid(item.value.span(), message);
    }

    pub(super) fn no_level(&mut self, block: &Item) {
        let kind = &block.key;
        let message = format!("Invalid {kind} policy: the block has no `policy`");
        self.missing(&block.span, message);
    }

    pub(super) fn unknown(&mut self, item: &Item) {
        self.bad_key(item, "there is no such key here");
    }

    pub(super) fn bad_key(&mut self, item: &Item, why: &str) {
        let key = quoted(&item.key);
        let message = format!("Invalid or duplicate policy keys: {key}; {why}");
        self.invalid(&item.span, message);
    }

    pub(super) fn check_name(&mut self, block: &Named<'_>, kind: &str, is_name: bool) {
        if !is_name {
            let name = quoted(block.name);
            let also = if kind == "namespace" { "" } else { ", `_`" };
            let message = format!(
                "Invalid {kind} name: \"{name}\"; it has 1 to 128 letters, digits, `-`{also} and `*`"
            );
            self.invalid(block.span, message);
        }
    }

    pub(super) fn count(&mut self, span: &Span) {
        self.rules += 1;
        if self.rules == RULES_MAX + 1 {
            let message = format!("more than {RULES_MAX} rules; split the policy");
            self.problems.failed(span, message);
        }
    }

    /// An error for writers; a reader of stored documents passes over it.
    pub(super) fn invalid(&mut self, span: &Span, message: String) {
        if self.mode == Mode::Strict {
            self.problems.report(span, message);
        }
    }

    pub(super) fn missing(&mut self, span: &Span, message: String) {
        if self.is_complete {
            self.invalid(span, message);
        }
    }

    pub(super) fn wrong_type(&mut self, item: &Item, span: &Span, wanted: &str) {
        let key = quoted(&item.key);
        self.problems.failed(span, format!("`{key}` {wanted}"));
    }
}

/// The capability that was probably meant, or all there are if they are few.
pub(super) fn hint<C: Capability>(name: &str) -> String {
    const LISTED_MAX: usize = 8;
    let alike = name.to_ascii_lowercase().replace('_', "-");
    if let Some(meant) = C::parse(&alike) {
        return format!("; did you mean \"{}\"?", meant.name());
    }
    if C::ALL.len() > LISTED_MAX {
        return String::new();
    }
    let names: Vec<_> = C::ALL.iter().map(|capability| capability.name()).collect();
    format!("; it is one of {}", names.join(", "))
}
