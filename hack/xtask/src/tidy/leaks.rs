//! Nothing of the machine that built it: no home folders, no package hosts, no second registry.

use std::path::Path;

use crate::finding::{Finding, Rule};
use crate::repo::Repo;

const LEAK: Rule = Rule {
    name: "machine-leak",
    why: "a path or host of one machine is wrong on every other, and tells what is nobody's business",
};

/// Paths that exist only for one person or one machine. In halves, so that they do not find
/// themselves.
const PATHS: &[&str] = &[
    concat!("/root/", "."),
    concat!("/ho", "me/"),
    concat!("/Use", "rs/"),
    concat!(".cargo/", "registry"),
];
const HOSTS: &[&str] = &[
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("deb.debian", ".org"),
    concat!("files.pythonhosted", ".org"),
    concat!("registry.npmjs", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("repo.maven.apache", ".org"),
];
/// The only source that Cargo.lock may name.
const LOCK_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Job files and frozen answers written by others are quoted as they are.
const QUOTED: &[&str] = &[
    "/tests/data/",
    "/tests/golden/",
    "/tests/fixtures/",
    "/testdata/",
];

/// Checks all texts for paths and hosts, and the lock file for its sources.
pub(super) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.texts() {
        if QUOTED.iter().any(|folder| path.contains(folder)) {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            findings.extend(check_line(path, number, line));
        }
    }
    findings
}

/// Checks that the folder this tree lies in is named nowhere.
pub(super) fn check_root(repo: &Repo, root: &Path) -> Vec<Finding> {
    let root = root.to_string_lossy();
    // A root of one short component would be found in ordinary prose.
    if root.matches('/').count() < 2 {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (path, text) in repo.texts() {
        for (number, _) in (1..)
            .zip(text.lines())
            .filter(|(_, line)| line.contains(root.as_ref()))
        {
            let what = "the folder of this very work tree";
            findings.push(LEAK.at(path, number, what, "write the path relative to the root"));
        }
    }
    findings
}

fn check_line(path: &str, number: usize, line: &str) -> Option<Finding> {
    if path == "Cargo.lock" {
        let source = line.strip_prefix("source = ")?.trim_matches('"');
        return (source != LOCK_SOURCE).then(|| {
            let fix = "depend on a release from the crates registry";
            LEAK.at(path, number, format!("a package from {source}"), fix)
        });
    }
    let word = PATHS
        .iter()
        .chain(HOSTS)
        .find(|word| line.contains(**word))?;
    let fix = "make it relative, an argument, or a temporary folder; leave hosts to the tools' own settings";
    Some(LEAK.at(path, number, format!("`{word}` names a machine"), fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_folder_or_a_package_host_is_found() {
        let home = format!("let a = \"{}someone/x\";\n", PATHS[1]);
        let host = format!("see https://{}/x\n", HOSTS[0]);
        let repo = Repo::from_texts(&[("a.rs", &home), ("b.md", &host), ("c.rs", "fn a() {}\n")]);
        let paths: Vec<String> = check(&repo)
            .into_iter()
            .map(|finding| finding.path)
            .collect();
        assert_eq!(paths, ["a.rs", "b.md"]);
    }

    #[test]
    fn quoted_files_of_others_are_left_alone() {
        let home = format!("path = \"{}someone\"\n", PATHS[1]);
        let repo = Repo::from_texts(&[("protocol/jobspec/tests/data/real/a.hcl", &home)]);
        assert!(check(&repo).is_empty());
    }

    #[test]
    fn the_lock_file_names_one_registry() {
        let good = format!("source = \"{LOCK_SOURCE}\"\n");
        assert!(check(&Repo::from_texts(&[("Cargo.lock", &good)])).is_empty());
        let bad = "source = \"git+https://example.org/fork\"\n";
        assert_eq!(check(&Repo::from_texts(&[("Cargo.lock", bad)])).len(), 1);
    }

    #[test]
    fn the_folder_of_the_tree_is_found() {
        let repo = Repo::from_texts(&[("a.sh", "cd /srv/tree/of-mine/x\n"), ("b.sh", "cd x\n")]);
        assert_eq!(check_root(&repo, Path::new("/srv/tree/of-mine")).len(), 1);
        assert!(check_root(&repo, Path::new("/x")).is_empty());
    }
}
