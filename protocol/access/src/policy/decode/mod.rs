//! From the tree of a document to its rules.

mod faults;
mod fields;

use self::fields::{blocks, is_empty_text};
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
}
