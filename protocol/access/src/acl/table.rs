//! Rules of one kind by name: an exact name wins, else the glob that is nearest to the name.
//!
//! Nearest is the glob with the most literal bytes; among equals one that denies wins, then the
//! last one by name. This order holds between any two globs, so globs are sorted once and the
//! first that matches wins. A glob of the form `prefix*`, which nearly all are, is found without a
//! scan: among sorted prefixes, each linked to the longest other one that it begins with, all
//! prefixes of a name lie on the chain from the name's predecessor. Therefore there is no cache of
//! resolved names.

use std::collections::BTreeMap;

use crate::acl::glob::{is_glob, literal_bytes, matches};
use crate::capability::{Capability, CapabilitySet};

/// The rules of all policies of a caller, for one kind of object.
#[derive(Clone, Debug)]
pub(super) struct RuleTable<C: Capability> {
    /// Names without `*`, sorted.
    exact: Box<[(Box<str>, CapabilitySet<C>)]>,
    /// Globs of the form `prefix*`, sorted by prefix.
    prefixes: Box<[Prefix<C>]>,
    /// Other globs, the one that wins first.
    globs: Box<[Glob<C>]>,
}

#[derive(Clone, Debug)]
struct Prefix<C: Capability> {
    glob: Glob<C>,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
}

#[derive(Clone, Debug)]
struct Glob<C: Capability> {
    pattern: Box<str>,
    literal_bytes: usize,
    rights: CapabilitySet<C>,
}

impl<C: Capability> Glob<C> {
    /// The larger of two that match wins.
    fn rank(&self) -> (usize, bool, &str) {
        (self.literal_bytes, self.rights.is_denied(), &self.pattern)
    }

    fn prefix(&self) -> &str {
        &self.pattern[..self.pattern.len() - 1]
    }
}

/// Rules that are still being united, by name.
pub(super) type Rules<C> = BTreeMap<String, CapabilitySet<C>>;

impl<C: Capability> RuleTable<C> {
    pub(super) fn new(rules: Rules<C>) -> Self {
        let mut exact = Vec::new();
        let mut prefixes = Vec::new();
        let mut globs = Vec::new();
        for (name, set) in rules {
            let (name, rights) = (name.into_boxed_str(), set.effective());
            if !is_glob(&name) {
                exact.push((name, rights));
                continue;
            }
            let glob = Glob {
                literal_bytes: literal_bytes(&name),
                pattern: name,
                rights,
            };
            if glob.pattern.ends_with('*') && glob.literal_bytes + 1 == glob.pattern.len() {
                prefixes.push(glob);
            } else {
                globs.push(glob);
            }
        }
        globs.sort_by(|a, b| b.rank().cmp(&a.rank()));
        Self {
            exact: exact.into(),
            prefixes: linked(prefixes),
            globs: globs.into(),
        }
    }

    /// The rights of the rule with exactly this name.
    pub(super) fn exact(&self, name: &str) -> Option<CapabilitySet<C>> {
        let at = self
            .exact
            .binary_search_by(|(exact, _)| (**exact).cmp(name));
        at.ok().map(|at| self.exact[at].1)
    }

    /// The rights that the rules give for `name`; without a rule that matches there are none.
    pub(super) fn rights(&self, name: &str) -> CapabilitySet<C> {
        if let Some(rights) = self.exact(name) {
            return rights;
        }
        let prefix = self.longest_prefix(name);
        let better = |glob: &&Glob<C>| prefix.is_none_or(|found| glob.rank() > found.rank());
        let mut candidates = self.globs.iter().take_while(better);
        let found = candidates.find(|glob| matches(&glob.pattern, name));
        found
            .or(prefix)
            .map_or(CapabilitySet::EMPTY, |glob| glob.rights)
    }

    fn longest_prefix(&self, name: &str) -> Option<&Glob<C>> {
        let after = self
            .prefixes
            .partition_point(|prefix| prefix.glob.prefix() <= name);
        let mut at = after.checked_sub(1);
        while let Some(prefix) = at.map(|at| &self.prefixes[at]) {
            if name.starts_with(prefix.glob.prefix()) {
                return Some(&prefix.glob);
            }
            at = prefix.parent;
        }
        None
    }

    /// Every rule: its name and the rights that it gives.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, CapabilitySet<C>)> {
        let exact = self.exact.iter().map(|(name, rights)| (&**name, *rights));
        let prefixes = self.prefixes.iter().map(|prefix| &prefix.glob);
        let globs = prefixes.chain(&self.globs);
        exact.chain(globs.map(|glob| (&*glob.pattern, glob.rights)))
    }
}

/// Links every prefix to the longest other one that it begins with.
fn linked<C: Capability>(globs: Vec<Glob<C>>) -> Box<[Prefix<C>]> {
    let mut sorted = globs;
    sorted.sort_by(|a, b| a.prefix().cmp(b.prefix()));
    // Prefixes of the one before, the longest last.
    let mut open: Vec<usize> = Vec::new();
    let mut parents = Vec::with_capacity(sorted.len());
    for (at, glob) in sorted.iter().enumerate() {
        while open
            .last()
            .is_some_and(|last| !glob.prefix().starts_with(sorted[*last].prefix()))
        {
            open.pop();
        }
        parents.push(open.last().copied());
        open.push(at);
    }
    let linked = sorted.into_iter().zip(parents);
    linked
        .map(|(glob, parent)| Prefix { glob, parent })
        .collect()
}

impl<C: Capability> Default for RuleTable<C> {
    fn default() -> Self {
        Self::new(Rules::new())
    }
}
