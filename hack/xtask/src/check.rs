//! `cargo xtask check CRATE..`: what a change to some crates needs before it is committed.
//!
//! ```text
//! format   of the whole tree, a second
//! tidy     of the whole tree
//! lints    of the crates and of all that depend on them
//! tests    of the crates
//! ```
//!
//! It selects the features of the whole workspace (`hack/features`), so that it shares what
//! `cargo xtask ci` compiles.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::bail;

use crate::metadata::Metadata;
use crate::stage::{Stages, cargo, run};

const FEATURES: &str = "hack-features";

/// Checks `crates`, each given by its name or its folder.
///
/// # Errors
/// If one is no member of the workspace, or cargo's metadata cannot be read.
pub(crate) fn check(root: &Path, crates: &[String], stages: &mut Stages) -> anyhow::Result<()> {
    let metadata = Metadata::read(root)?;
    let named = names(&metadata, crates)?;
    let dependents = metadata.dependents(&named);
    stages.run("format", || {
        run(cargo(root).args(["fmt", "--all", "--check"]))
    });
    stages.run("tidy", || crate::tidy(root));
    stages.run("lints", || {
        let mut clippy = cargo(root);
        clippy.args(["clippy", "--all-targets", "-p", FEATURES]);
        for name in named.iter().chain(&dependents) {
            clippy.args(["-p", name]);
        }
        run(clippy.args(["--", "-D", "warnings"]))
    });
    stages.run("tests", || {
        let mut test = cargo(root);
        test.args(["test", "--no-fail-fast", "-p", FEATURES]);
        for name in &named {
            test.args(["-p", name]);
        }
        run(&mut test)
    });
    Ok(())
}

fn names<'a>(metadata: &'a Metadata, crates: &[String]) -> anyhow::Result<BTreeSet<&'a str>> {
    let mut named = BTreeSet::new();
    for given in crates {
        let wanted = given.trim_end_matches('/').replace('/', "-");
        let Some(member) = metadata.members().find(|it| it.name == wanted) else {
            let all: Vec<_> = metadata.members().map(|it| it.name.as_str()).collect();
            bail!(
                "{given} is no crate of the workspace; there are {}",
                all.join(", ")
            );
        };
        named.insert(member.name.as_str());
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Repo;

    fn metadata() -> Metadata {
        Metadata::read(&Repo::find_root().unwrap()).unwrap()
    }

    #[test]
    fn crates_are_given_by_name_or_folder() {
        let metadata = metadata();
        let given = ["noded/core/".to_owned(), "netns".to_owned()];
        let named = names(&metadata, &given).unwrap();
        assert_eq!(Vec::from_iter(named), ["netns", "noded-core"]);
        let error = names(&metadata, &["noded".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("noded-daemon"), "{error}");
    }

    #[test]
    fn dependents_are_found_through_others_and_through_tests() {
        let metadata = metadata();
        let dependents = metadata.dependents(&BTreeSet::from(["protocol-wire"]));
        for name in [
            "noded-core",
            "noded-daemon",
            "controlplane-server",
            "hack-sim",
        ] {
            assert!(dependents.contains(name), "{name}: {dependents:?}");
        }
        assert!(!dependents.contains("protocol-model"));
        assert!(!dependents.contains("protocol-wire"));
    }
}
