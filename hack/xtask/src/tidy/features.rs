//! `hack/features` names every third-party crate of every member, with every feature asked for.

use crate::finding::{Finding, Rule};
use crate::metadata::{Dependency, Metadata};

const FEATURES: Rule = Rule {
    name: "features",
    why: "a command that names few crates would select other features, and compile everything a second time",
};
const NAME: &str = "hack-features";
const MANIFEST: &str = "hack/features/Cargo.toml";

/// Holds the list against what the members declare.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let (list, members): (Vec<_>, Vec<_>) = metadata.members().partition(|it| it.name == NAME);
    let listed: Vec<&Dependency> = list.iter().flat_map(|it| &it.dependencies).collect();
    let mut findings = Vec::new();
    for member in members {
        let third_party = member.dependencies.iter().filter(|it| it.source.is_some());
        for asked in third_party.filter(|asked| !listed.iter().any(|it| covers(it, asked))) {
            let what = format!(
                "{} asks for {} {} with the features {:?}",
                member.name, asked.name, asked.req, asked.features
            );
            let table = match asked.kind.as_deref() {
                Some("build") => "[build-dependencies]",
                _ => "[dependencies]",
            };
            let fix = format!("add it, or the features that are missing, to {table}");
            findings.push(FEATURES.on(MANIFEST, what, fix));
        }
    }
    findings
}

/// Whether the list's line `listed` switches on all that `asked` does.
fn covers(listed: &Dependency, asked: &Dependency) -> bool {
    let is_build = |it: &Dependency| it.kind.as_deref() == Some("build");
    listed.name == asked.name
        && listed.req == asked.req
        && is_build(listed) == is_build(asked)
        && (listed.uses_default_features || !asked.uses_default_features)
        && asked.features.iter().all(|it| listed.features.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(kind: Option<&str>, features: &[&str]) -> Dependency {
        Dependency {
            name: "a".to_owned(),
            kind: kind.map(str::to_owned),
            req: "^1".to_owned(),
            source: Some("somewhere".to_owned()),
            features: features.iter().map(|it| (*it).to_owned()).collect(),
            uses_default_features: false,
        }
    }

    #[test]
    fn a_line_covers_fewer_features_and_not_more() {
        let listed = dependency(None, &["x", "y"]);
        assert!(covers(&listed, &dependency(None, &["x"])));
        assert!(covers(&listed, &dependency(Some("dev"), &["y", "x"])));
        assert!(!covers(&listed, &dependency(None, &["x", "z"])));
        assert!(!covers(&listed, &dependency(Some("build"), &["x"])));
    }

    #[test]
    fn default_features_and_versions_count() {
        let listed = dependency(None, &[]);
        let mut asked = dependency(None, &[]);
        asked.uses_default_features = true;
        assert!(!covers(&listed, &asked));
        let mut asked = dependency(None, &[]);
        asked.req = "^2".to_owned();
        assert!(!covers(&listed, &asked));
    }
}
