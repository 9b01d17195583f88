//! The dependency tree against `deny.toml`: licences, bans, version floors, sources.
//!
//! The file is in cargo-deny's format, and whoever has that tool can use it. Building it costs
//! minutes on every fresh machine, and we use a small part; that part is here, and takes a second:
//!
//! ```text
//! deny.toml --parse--> Lists --+
//! cargo tree (per target) -----+--> bans, wrappers, floors
//! cargo metadata --------------+--> licences, sources, wildcards, one io-uring
//! ```

mod bans;
mod licence;
mod lists;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;

use crate::finding::{Finding, Rule};
use crate::metadata::{Metadata, Package, PackageKey, built_packages};
use licence::Verdict;
use lists::Lists;

/// Where the lists stand.
pub(crate) const FILE: &str = "deny.toml";

const LICENCE: Rule = Rule {
    name: "licence",
    why: "whoever ships the binaries must keep every licence in the tree",
};
const SOURCE: Rule = Rule {
    name: "dependency-source",
    why: "a build must be repeatable from the crates registry alone",
};
const IO_URING: Rule = Rule {
    name: "one-io-uring",
    why: "tokio-uring takes submission entries of its own io-uring; those of another version are another type",
};

/// Checks the dependencies of the workspace at `root`.
///
/// # Errors
/// If deny.toml cannot be read or cargo fails.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let path = root.join(FILE);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let lists = Lists::parse(&text).with_context(|| format!("read {FILE}"))?;
    let metadata = Metadata::read(root)?;
    let mut findings = lists.findings_about_itself();
    let mut built_keys: BTreeSet<PackageKey> = BTreeSet::new();
    for target in &lists.graph.targets {
        let built = built_packages(root, target)?;
        findings.extend(bans::check(&lists.bans.deny, &built));
        built_keys.extend(built.into_keys());
    }
    let is_built = |p: &&Package| built_keys.contains(&(p.name.clone(), p.version.clone()));
    for package in metadata.packages.iter().filter(is_built) {
        findings.extend(check_licence(package, &lists));
        findings.extend(check_source(package));
    }
    findings.extend(check_io_uring(&metadata));
    findings.sort();
    findings.dedup();
    Ok(findings)
}

fn check_licence(package: &Package, lists: &Lists) -> Option<Finding> {
    let what = match package.license.as_deref() {
        None => "states no licence".to_owned(),
        Some(text) => match licence::judge(text, |id| lists.allows(&package.name, id)) {
            Ok(Verdict::Allowed) => return None,
            Ok(Verdict::Forbidden) => format!("is under {text}"),
            Err(reason) => format!("states a licence that cannot be read: {text} ({reason})"),
        },
    };
    let name = format!("{} {} {what}", package.name, package.version);
    Some(LICENCE.on(
        FILE,
        name,
        "choose another crate, or argue an exception in [licenses]",
    ))
}

fn check_source(package: &Package) -> Vec<Finding> {
    let mut findings = Vec::new();
    let name = format!("{} {}", package.name, package.version);
    if let Some(source) = &package.source
        && source != "registry+https://github.com/rust-lang/crates.io-index"
    {
        let what = format!("{name} comes from {source}");
        findings.push(SOURCE.on("Cargo.lock", what, "use a release from the crates registry"));
    }
    if package.source.is_none() {
        let wild = |d: &&crate::metadata::Dependency| d.req == "*" && d.source.is_some();
        for dependency in package.dependencies.iter().filter(wild) {
            let what = format!("{name} takes any version of {}", dependency.name);
            findings.push(SOURCE.on("Cargo.toml", what, "state the lowest version that works"));
        }
    }
    findings
}

/// noded's `io-uring` must be the very package that tokio-uring uses.
fn check_io_uring(metadata: &Metadata) -> Option<Finding> {
    let theirs = metadata.resolved("tokio-uring", "io_uring")?;
    let ours = metadata.resolved("noded-daemon", "io_uring")?;
    (theirs.id != ours.id).then(|| {
        let what = format!(
            "noded-daemon has io-uring {}, tokio-uring has {}",
            ours.version, theirs.version
        );
        IO_URING.on(
            "Cargo.toml",
            what,
            "keep the workspace's io-uring at tokio-uring's version",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Repo;

    #[test]
    fn the_dependencies_of_this_tree_obey_deny_toml() {
        let findings = check(&Repo::find_root().unwrap()).unwrap();
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "{}", lines.join("\n"));
    }
}
