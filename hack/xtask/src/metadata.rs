//! The part of `cargo metadata` and `cargo tree` that the checks read.
//!
//! Two sources, because each knows what the other does not: metadata has licences, kinds and
//! declared dependencies, but lists optional packages that no build selects; tree has exactly the
//! packages that a build for one target compiles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::stage::cargo;

/// `cargo metadata --format-version 1`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    workspace_members: Vec<String>,
    workspace_root: String,
    resolve: Resolve,
}

/// One package, ours or a dependency.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: semver::Version,
    pub(crate) license: Option<String>,
    /// `None` for a path package, that is, one of ours.
    pub(crate) source: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    manifest_path: String,
}

/// One declared dependency.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for an ordinary one, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    pub(crate) req: String,
    pub(crate) source: Option<String>,
    pub(crate) features: Vec<String>,
    pub(crate) uses_default_features: bool,
}

#[derive(Debug, Clone, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDependency>,
}

#[derive(Debug, Clone, Deserialize)]
struct NodeDependency {
    /// The crate name as the code spells it, renames applied.
    name: String,
    pkg: String,
}

/// A package as `cargo tree` prints it.
pub(crate) type PackageKey = (String, semver::Version);

impl Metadata {
    /// Asks cargo; the lock file must be current.
    ///
    /// # Errors
    /// If cargo fails or answers in an unknown shape.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let output = cargo(root)
            .args(["metadata", "--format-version", "1", "--locked"])
            .output()
            .context("run cargo metadata")?;
        if !output.status.success() {
            bail!(
                "cargo metadata: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        serde_json::from_slice(&output.stdout).context("read the answer of cargo metadata")
    }

    /// Our own crates.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The folder of one of our crates, relative to the root.
    pub(crate) fn folder<'a>(&self, package: &'a Package) -> &'a str {
        package
            .manifest_path
            .strip_prefix(&self.workspace_root)
            .and_then(|path| path.strip_suffix("Cargo.toml"))
            .map_or("", |path| path.trim_matches('/'))
    }

    /// The members that depend on one of `crates`, through however many others, in tests too.
    pub(crate) fn dependents<'a>(&'a self, crates: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let mut found = crates.clone();
        loop {
            let before = found.len();
            for member in self.members() {
                let uses =
                    |it: &Dependency| it.source.is_none() && found.contains(it.name.as_str());
                if member.dependencies.iter().any(uses) {
                    found.insert(&member.name);
                }
            }
            if found.len() == before {
                break;
            }
        }
        found.difference(crates).copied().collect()
    }

    /// The package that `crate_name` means inside the package called `user`.
    pub(crate) fn resolved(&self, user: &str, crate_name: &str) -> Option<&Package> {
        let user_ids: BTreeSet<&str> = self
            .packages
            .iter()
            .filter(|package| package.name == user)
            .map(|package| package.id.as_str())
            .collect();
        let node = self
            .resolve
            .nodes
            .iter()
            .find(|node| user_ids.contains(node.id.as_str()))?;
        let id = &node.deps.iter().find(|dep| dep.name == crate_name)?.pkg;
        self.packages.iter().find(|package| package.id == *id)
    }
}

/// Exactly the packages that a build for `target` compiles, tests and build scripts included; the
/// value names the packages that ask for each.
///
/// # Errors
/// If cargo fails or answers in an unknown shape.
pub(crate) fn built_packages(
    root: &Path,
    target: &str,
) -> anyhow::Result<BTreeMap<PackageKey, BTreeSet<String>>> {
    let output = cargo(root)
        .args(["tree", "--workspace", "--locked", "--target", target])
        .args([
            "--edges",
            "normal,build,dev",
            "--prefix",
            "depth",
            "--format",
            "|{p}",
        ])
        .output()
        .context("run cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    }
    parse_tree(&String::from_utf8(output.stdout)?)
}

/// Lines of the form `2|name v1.2.3 (path or note)`.
fn parse_tree(text: &str) -> anyhow::Result<BTreeMap<PackageKey, BTreeSet<String>>> {
    let mut built: BTreeMap<PackageKey, BTreeSet<String>> = BTreeMap::new();
    let mut path: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (depth, package) = line.split_once('|').unwrap_or(("", line));
        let mut words = package.split_whitespace();
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            bail!("cargo tree printed a line that is not understood: {line}");
        };
        let depth: usize = depth.parse().with_context(|| format!("depth in: {line}"))?;
        let version = semver::Version::parse(version.trim_start_matches('v'))
            .with_context(|| format!("version in: {line}"))?;
        path.truncate(depth);
        let users = built.entry((name.to_owned(), version)).or_default();
        if let Some(user) = path.last() {
            users.insert(user.clone());
        }
        path.push(name.to_owned());
    }
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_lines_give_the_package_and_who_asks_for_it() {
        let built =
            parse_tree("0|a v0.1.0 (/x)\n1|b v1.2.3\n2|c v0.1.0\n1|c v0.1.0 (*)\n").unwrap();
        let users = &built[&("c".to_owned(), semver::Version::new(0, 1, 0))];
        assert_eq!(
            users.iter().map(String::as_str).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert!(built[&("a".to_owned(), semver::Version::new(0, 1, 0))].is_empty());
    }

    #[test]
    fn an_unknown_tree_line_is_an_error() {
        parse_tree("0|a\n").unwrap_err();
    }
}
