//! The keys of a block and the types of their values.

use std::collections::BTreeSet;

use super::faults::hint;
use super::{Decoder, Named};
use crate::capability::{Capability, CapabilitySet, LevelRule};
use crate::policy::error::quoted;
use crate::policy::syntax::{Item, Value};

impl Decoder<'_> {
    /// The word of a `policy = ".."`, as a rule of read, write and deny.
    pub(super) fn level_rule(&mut self, item: &Item, kind: &str) -> Option<LevelRule> {
        let word = self.text(item)?;
        let rule = LevelRule::parse(word);
        if rule.is_none() {
            self.bad_level(item, kind, word, "read, write, deny");
        }
        rule
    }

    /// The capabilities that a `policy = ".."` stands for.
    pub(super) fn level<C: Capability>(&mut self, item: &Item, kind: &str) -> CapabilitySet<C> {
        let Some(word) = self.text(item) else {
            return CapabilitySet::EMPTY;
        };
        CapabilitySet::of_level(word).unwrap_or_else(|| {
            let words: Vec<_> = C::LEVELS.iter().map(|(word, _)| *word).collect();
            self.bad_level(item, kind, word, &words.join(", "));
            CapabilitySet::EMPTY
        })
    }

    /// The capabilities of a list, or of one text.
    pub(super) fn capabilities<C: Capability>(
        &mut self,
        item: &Item,
        kind: &str,
        place: &str,
    ) -> CapabilitySet<C> {
        let values = match &item.value {
            Value::List(values, _) => values.as_slice(),
            single => std::slice::from_ref(single),
        };
        let mut set = CapabilitySet::EMPTY;
        for value in values {
            let Value::Text(name, span) = value else {
                let wanted = "takes a list of texts: capabilities = [\"..\"]";
                self.wrong_type(item, value.span(), wanted);
                continue;
            };
            match C::parse(name) {
                Some(capability) => set.insert(capability),
                None => {
                    let shown = quoted(name);
                    let hint = hint::<C>(name);
                    let message = format!("Invalid {kind} capability '{shown}'{place}{hint}");
                    self.invalid(span, message);
                }
            }
        }
        set
    }

    pub(super) fn text<'i>(&mut self, item: &'i Item) -> Option<&'i str> {
        if let Value::Text(text, _) = &item.value {
            return Some(text);
        }
        self.wrong_type(item, item.value.span(), "takes a text in quotes");
        None
    }

    /// The named blocks below a key: `key "NAME" { .. }`, or an object of objects.
    pub(super) fn named<'i>(&mut self, item: &'i Item) -> Vec<Named<'i>> {
        let mut named = Vec::new();
        for body in self.bodies(item) {
            for inner in body {
                let Some(bodies) = blocks(&inner.value) else {
                    let key = quoted(&item.key);
                    let kind = key.replace('_', " ");
                    let message = format!(
                        "Invalid {kind} name: the block has none; write {key} \"NAME\" {{ .. }}"
                    );
                    self.problems.report(&inner.span, message);
                    continue;
                };
                for body in bodies {
                    self.count(&inner.span);
                    named.push(Named {
                        name: &inner.key,
                        span: &inner.span,
                        body,
                    });
                }
            }
        }
        named
    }

    pub(super) fn bodies<'i>(&mut self, item: &'i Item) -> Vec<&'i [Item]> {
        blocks(&item.value).unwrap_or_else(|| {
            self.wrong_type(item, item.value.span(), "takes a block in braces");
            Vec::new()
        })
    }

    /// The items of a body, all of them; a second one of a key that is not `repeated` is an error.
    /// A lenient reader unites them, so that no `deny` is lost.
    pub(super) fn items<'i>(&mut self, body: &'i [Item], repeated: &[&str]) -> &'i [Item] {
        let mut seen = BTreeSet::new();
        for item in body {
            let key = item.key.as_str();
            if !seen.insert(key) && !repeated.contains(&key) {
                self.bad_key(item, "it is already there; join both");
            }
        }
        body
    }
}

/// In named blocks an empty level is none, as in Nomad.
pub(super) fn is_empty_text(item: &Item) -> bool {
    matches!(&item.value, Value::Text(text, _) if text.is_empty())
}

/// The blocks of a value: an object, or the objects of a list.
pub(super) fn blocks(value: &Value) -> Option<Vec<&[Item]>> {
    match value {
        Value::Object(items, _) => Some(vec![items.as_slice()]),
        Value::List(values, _) => {
            let bodies = values.iter().map(|value| match value {
                Value::Object(items, _) => Some(items.as_slice()),
                _ => None,
            });
            bodies.collect()
        }
        _ => None,
    }
}
