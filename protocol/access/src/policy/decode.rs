//! From the tree of a document to its rules.

use std::collections::BTreeSet;

use super::error::{Problems, Span, quoted};
use super::rules::{NamespaceRule, OperatorRule, Policy, Rule};
use super::syntax::{Item, Value};
use crate::capability::{
    Capability, CapabilitySet, LevelRule, NamespaceCapability, OperatorCapability,
    VariableCapability,
};
use crate::names::has_only;

/// Most rules of one document: named blocks, paths, and blocks without a name.
pub const RULES_MAX: usize = 1024;

/// Longest pattern of a variable's path, in bytes: twice a path, which leaves room for stars.
const PATH_BYTES_MAX: usize = 256;

/// Whether unknown keys, levels, names and capabilities are errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Strict,
    Lenient,
}

/// The rules of a document; with errors, those that could be read.
pub(super) fn policy(items: &[Item], mode: Mode, problems: &mut Problems) -> Policy {
    let is_complete = problems.is_empty();
    let mut decoder = Decoder {
        mode,
        is_complete,
        rules: 0,
        problems,
    };
    let policy = decoder.document(items);
    if policy.is_empty() && decoder.problems.is_empty() {
        decoder.missing(
            &(0..0),
            "Invalid policy: the document has no rule".to_owned(),
        );
    }
    policy
}

struct Decoder<'p> {
    mode: Mode,
    /// Whether the grammar is right. Where it is not, a missing part may be one that was left out.
    is_complete: bool,
    rules: usize,
    problems: &'p mut Problems,
}

/// A named block: its name and its body.
struct Named<'i> {
    name: &'i str,
    span: &'i Span,
    body: &'i [Item],
}

impl Decoder<'_> {
    fn document(&mut self, items: &[Item]) -> Policy {
        let mut policy = Policy::default();
        let repeated = ["namespace", "node_pool", "host_volume"];
        for item in self.items(items, &repeated) {
            match item.key.as_str() {
                "namespace" => {
                    for block in self.named(item) {
                        policy.namespaces.push(self.namespace(&block));
                    }
                }
                "node_pool" => {
                    for block in self.named(item) {
                        let is_name = has_only(block.name, |b| matches!(b, b'-' | b'_' | b'*'));
                        policy
                            .node_pools
                            .push(self.rule(&block, "node pool", is_name));
                    }
                }
                "host_volume" => {
                    for block in self.named(item) {
                        let is_name = has_only(block.name, |b| matches!(b, b'-' | b'_' | b'*'));
                        policy
                            .host_volumes
                            .push(self.rule(&block, "host volume", is_name));
                    }
                }
                "agent" => policy.agent = policy.agent.max(self.level_block(item)),
                "node" => policy.node = policy.node.max(self.level_block(item)),
                "quota" => policy.quota = policy.quota.max(self.level_block(item)),
                "operator" => self.operator(item, policy.operator.get_or_insert_default()),
                "plugin" => {
                    let set = self.unnamed(item, &["policy"]);
                    policy.plugin = Some(policy.plugin.unwrap_or_default().union(set));
                }
                "sentinel" => {
                    let set = self.unnamed(item, &["policy", "capabilities"]);
                    policy.sentinel = Some(policy.sentinel.unwrap_or_default().union(set));
                }
                _ => self.unknown(item),
            }
        }
        policy
    }

    fn namespace(&mut self, block: &Named<'_>) -> NamespaceRule {
        let is_name = has_only(block.name, |b| matches!(b, b'-' | b'*'));
        self.check_name(block, "namespace", is_name);
        let mut rule = NamespaceRule {
            name: block.name.to_owned(),
            capabilities: CapabilitySet::EMPTY,
            variables: Vec::new(),
        };
        for item in self.items(block.body, &[]) {
            match item.key.as_str() {
                "policy" if is_empty_text(item) => {}
                "policy" => {
                    let level = self.level::<NamespaceCapability>(item, "namespace");
                    rule.capabilities = rule.capabilities.union(level);
                }
                "capabilities" => {
                    let set = self.capabilities(item, "namespace", "");
                    rule.capabilities = rule.capabilities.union(set);
                }
                "variables" => rule.variables.extend(self.variables(item, block.name)),
                _ => self.unknown(item),
            }
        }
        rule
    }

    /// The paths of a `variables` block.
    fn variables(&mut self, item: &Item, namespace: &str) -> Vec<Rule<VariableCapability>> {
        let place = format!(" in namespace {}", quoted(namespace));
        let mut rules = Vec::new();
        for body in self.bodies(item) {
            for item in self.items(body, &["path"]) {
                if item.key != "path" {
                    self.unknown(item);
                    continue;
                }
                for block in self.named(item) {
                    self.check_path(&block, &place);
                    let mut capabilities = CapabilitySet::EMPTY;
                    for item in self.items(block.body, &[]) {
                        if item.key == "capabilities" {
                            let set = self.capabilities(item, "variable", &place);
                            capabilities = capabilities.union(set);
                        } else {
                            self.unknown(item);
                        }
                    }
                    rules.push(Rule {
                        name: block.name.to_owned(),
                        capabilities,
                    });
                }
            }
        }
        if rules.is_empty() {
            let message = format!("Invalid variable policy: no variable paths{place}");
            self.missing(&item.span, message);
        }
        rules
    }

    fn check_path(&mut self, block: &Named<'_>, place: &str) {
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

    /// A named block with a level, capabilities, or both.
    fn rule<C: Capability>(&mut self, block: &Named<'_>, kind: &str, is_name: bool) -> Rule<C> {
        self.check_name(block, kind, is_name);
        let mut capabilities = CapabilitySet::EMPTY;
        for item in self.items(block.body, &[]) {
            let set = match item.key.as_str() {
                "policy" if is_empty_text(item) => continue,
                "policy" => self.level(item, kind),
                "capabilities" => self.capabilities(item, kind, ""),
                _ => {
                    self.unknown(item);
                    continue;
                }
            };
            capabilities = capabilities.union(set);
        }
        Rule {
            name: block.name.to_owned(),
            capabilities,
        }
    }

    /// A block without a name whose levels stand for capabilities.
    fn unnamed<C: Capability>(&mut self, block: &Item, keys: &[&str]) -> CapabilitySet<C> {
        let mut stated = CapabilitySet::EMPTY;
        let bodies = self.bodies(block);
        let mut is_stated = bodies.is_empty();
        self.count(&block.span);
        for body in bodies {
            for item in self.items(body, &[]) {
                let set = match item.key.as_str() {
                    key if !keys.contains(&key) => {
                        self.unknown(item);
                        continue;
                    }
                    "policy" => self.level(item, &block.key),
                    _ => self.capabilities(item, &block.key, ""),
                };
                is_stated = true;
                stated = stated.union(set);
            }
        }
        if !is_stated {
            self.no_level(block);
        }
        stated
    }

    /// A block without a name that has a level alone.
    fn level_block(&mut self, block: &Item) -> Option<LevelRule> {
        let mut level = None;
        let bodies = self.bodies(block);
        let mut is_stated = bodies.is_empty();
        self.count(&block.span);
        for body in bodies {
            for item in self.items(body, &[]) {
                if item.key == "policy" {
                    is_stated = true;
                    level = level.max(self.level_rule(item, &block.key));
                } else {
                    self.unknown(item);
                }
            }
        }
        if !is_stated {
            self.no_level(block);
        }
        level
    }

    fn operator(&mut self, block: &Item, rule: &mut OperatorRule) {
        // The level is read twice, for itself and for its capabilities: report its error once.
        let stated = self.unnamed::<OperatorCapability>(block, &["policy", "capabilities"]);
        rule.capabilities = rule.capabilities.union(stated);
        let bodies = blocks(&block.value).into_iter().flatten();
        for item in bodies.flatten().filter(|item| item.key == "policy") {
            if let Value::Text(word, _) = &item.value {
                rule.level = rule.level.max(LevelRule::parse(word));
            }
        }
    }

    /// The word of a `policy = ".."`, as a rule of read, write and deny.
    fn level_rule(&mut self, item: &Item, kind: &str) -> Option<LevelRule> {
        let word = self.text(item)?;
        let rule = LevelRule::parse(word);
        if rule.is_none() {
            self.bad_level(item, kind, word, "read, write, deny");
        }
        rule
    }

    /// The capabilities that a `policy = ".."` stands for.
    fn level<C: Capability>(&mut self, item: &Item, kind: &str) -> CapabilitySet<C> {
        let Some(word) = self.text(item) else {
            return CapabilitySet::EMPTY;
        };
        CapabilitySet::of_level(word).unwrap_or_else(|| {
            let words: Vec<_> = C::LEVELS.iter().map(|(word, _)| *word).collect();
            self.bad_level(item, kind, word, &words.join(", "));
            CapabilitySet::EMPTY
        })
    }

    fn bad_level(&mut self, item: &Item, kind: &str, word: &str, known: &str) {
        let word = quoted(word);
        let message = format!("Invalid {kind} policy: \"{word}\"; it is one of {known}");
        self.invalid(item.value.span(), message);
    }

    fn no_level(&mut self, block: &Item) {
        let kind = &block.key;
        let message = format!("Invalid {kind} policy: the block has no `policy`");
        self.missing(&block.span, message);
    }

    /// The capabilities of a list, or of one text.
    fn capabilities<C: Capability>(
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

    fn text<'i>(&mut self, item: &'i Item) -> Option<&'i str> {
        if let Value::Text(text, _) = &item.value {
            return Some(text);
        }
        self.wrong_type(item, item.value.span(), "takes a text in quotes");
        None
    }

    /// The named blocks below a key: `key "NAME" { .. }`, or an object of objects.
    fn named<'i>(&mut self, item: &'i Item) -> Vec<Named<'i>> {
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

    fn bodies<'i>(&mut self, item: &'i Item) -> Vec<&'i [Item]> {
        blocks(&item.value).unwrap_or_else(|| {
            self.wrong_type(item, item.value.span(), "takes a block in braces");
            Vec::new()
        })
    }

    /// The items of a body, all of them; a second one of a key that is not `repeated` is an error.
    /// A lenient reader unites them, so that no `deny` is lost.
    fn items<'i>(&mut self, body: &'i [Item], repeated: &[&str]) -> &'i [Item] {
        let mut seen = BTreeSet::new();
        for item in body {
            let key = item.key.as_str();
            if !seen.insert(key) && !repeated.contains(&key) {
                self.bad_key(item, "it is already there; join both");
            }
        }
        body
    }

    fn unknown(&mut self, item: &Item) {
        self.bad_key(item, "there is no such key here");
    }

    fn bad_key(&mut self, item: &Item, why: &str) {
        let key = quoted(&item.key);
        let message = format!("Invalid or duplicate policy keys: {key}; {why}");
        self.invalid(&item.span, message);
    }

    fn check_name(&mut self, block: &Named<'_>, kind: &str, is_name: bool) {
        if !is_name {
            let name = quoted(block.name);
            let also = if kind == "namespace" { "" } else { ", `_`" };
            let message = format!(
                "Invalid {kind} name: \"{name}\"; it has 1 to 128 letters, digits, `-`{also} and `*`"
            );
            self.invalid(block.span, message);
        }
    }

    fn count(&mut self, span: &Span) {
        self.rules += 1;
        if self.rules == RULES_MAX + 1 {
            let message = format!("more than {RULES_MAX} rules; split the policy");
            self.problems.failed(span, message);
        }
    }

    /// An error for writers; a reader of stored documents passes over it.
    fn invalid(&mut self, span: &Span, message: String) {
        if self.mode == Mode::Strict {
            self.problems.report(span, message);
        }
    }

    fn missing(&mut self, span: &Span, message: String) {
        if self.is_complete {
            self.invalid(span, message);
        }
    }

    fn wrong_type(&mut self, item: &Item, span: &Span, wanted: &str) {
        let key = quoted(&item.key);
        self.problems.failed(span, format!("`{key}` {wanted}"));
    }
}

/// In named blocks an empty level is none, as in Nomad.
fn is_empty_text(item: &Item) -> bool {
    matches!(&item.value, Value::Text(text, _) if text.is_empty())
}

/// The blocks of a value: an object, or the objects of a list.
fn blocks(value: &Value) -> Option<Vec<&[Item]>> {
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

/// The capability that was probably meant, or all there are if they are few.
fn hint<C: Capability>(name: &str) -> String {
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
