//! What a scheduler thread keeps between evaluations to be faster: compiled patterns. It never
//! changes a result (property test: empty against warm).

use std::collections::BTreeMap;

use protocol_model::pattern;
use protocol_model::version::{Dialect, Requirement};
use regex::Regex;

/// How many compiled patterns of each kind are kept; a full cache is emptied, which only costs
/// time.
const ENTRIES_MAX: usize = 1024;

/// Reusable memory of one scheduler thread.
#[derive(Debug, Default)]
pub struct Scratch {
    regexes: BTreeMap<String, Option<Regex>>,
    versions: BTreeMap<String, Option<Requirement>>,
    semvers: BTreeMap<String, Option<Requirement>>,
}

impl Scratch {
    /// Nothing compiled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The compiled form of `pattern`; `None` where it is no regular expression, or too large.
    pub(crate) fn regex(&mut self, pattern: &str) -> Option<&Regex> {
        cached(&mut self.regexes, pattern, |text| {
            pattern::compile(text).ok()
        })
    }

    /// The compiled form of a version requirement; `None` where it is none.
    pub(crate) fn requirement(&mut self, text: &str, dialect: Dialect) -> Option<&Requirement> {
        let cache = match dialect {
            Dialect::Lenient => &mut self.versions,
            Dialect::Strict => &mut self.semvers,
        };
        cached(cache, text, |text| Requirement::parse(text, dialect))
    }
}

fn cached<'a, T>(
    cache: &'a mut BTreeMap<String, Option<T>>,
    text: &str,
    compile: impl FnOnce(&str) -> Option<T>,
) -> Option<&'a T> {
    if cache.len() >= ENTRIES_MAX && !cache.contains_key(text) {
        cache.clear();
    }
    if !cache.contains_key(text) {
        cache.insert(text.to_owned(), compile(text));
    }
    cache.get(text).and_then(Option::as_ref)
}
