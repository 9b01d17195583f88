//! The papers of the house: the documents at the root, and a word about every member.

use crate::finding::{Finding, Rule};
use crate::metadata::Metadata;
use crate::repo::Repo;

const PAPERS: Rule = Rule {
    name: "papers",
    why: "whoever arrives reads these first",
};
const MEMBERS: Rule = Rule {
    name: "members",
    why: "the list of members is the map of the workspace",
};

const REQUIRED: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "LICENSE",
    "STYLE.md",
    "GLOSSARY.md",
    "deny.toml",
];
const MANIFEST: &str = "Cargo.toml";

/// Checks the root's documents, the manifest's list, and the crates' common settings.
pub(super) fn check(repo: &Repo, metadata: &Metadata) -> Vec<Finding> {
    let mut findings = check_papers(repo);
    findings.extend(check_member_lines(repo.text(MANIFEST).unwrap_or_default()));
    for member in metadata.members() {
        let folder = metadata.folder(member);
        let manifest = format!("{folder}/{MANIFEST}");
        let expected = folder.replace('/', "-");
        if member.name != expected {
            let what = format!("the crate is called {}", member.name);
            findings.push(MEMBERS.on(
                &manifest,
                what,
                format!("call it {expected}, after its folder"),
            ));
        }
        let text = repo.text(&manifest).unwrap_or_default();
        let is_library = repo.text(&format!("{folder}/src/lib.rs")).is_some();
        findings.extend(check_settings(&manifest, text, is_library));
    }
    findings
}

/// The settings that every crate has.
fn check_settings(path: &str, manifest: &str, is_library: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !manifest.contains("[lints]\nworkspace = true") {
        let what = "the crate does not take the workspace's lints";
        findings.push(MEMBERS.on(path, what, "add `[lints]` with `workspace = true`"));
    }
    if is_library && !manifest.contains("\ndoctest = false") {
        let what = "examples in its comments would be tests that no layer runs";
        let advice = "add `doctest = false` to `[lib]`, and keep examples in tests";
        findings.push(MEMBERS.on(path, what, advice));
    }
    findings
}

fn check_papers(repo: &Repo) -> Vec<Finding> {
    REQUIRED
        .iter()
        .filter(|path| repo.text(path).is_none_or(|text| text.trim().is_empty()))
        .map(|path| PAPERS.on(path, "missing or empty", "write it, short and true"))
        .collect()
}

/// Each line of `members = [...]` carries a comment.
fn check_member_lines(manifest: &str) -> Vec<Finding> {
    let is_list = |line: &str| line.trim() == "members = [";
    (1..)
        .zip(manifest.lines())
        .skip_while(|(_, line)| !is_list(line))
        .skip(1)
        .take_while(|(_, line)| line.trim() != "]")
        .filter(|(_, line)| line.trim().starts_with('"'))
        .filter(|(_, line)| {
            line.split_once('#')
                .is_none_or(|(_, text)| text.trim().is_empty())
        })
        .map(|(number, line)| {
            let what = format!("{} has no comment", line.trim().trim_end_matches(','));
            MEMBERS.at(
                MANIFEST,
                number,
                what,
                "say in half a line what the crate is",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_carries_a_comment() {
        let manifest =
            "[workspace]\nmembers = [\n    \"a\", # first\n    \"b\",\n    \"c\", #\n]\n";
        let lines: Vec<_> = check_member_lines(manifest)
            .into_iter()
            .map(|f| f.line)
            .collect();
        assert_eq!(lines, [Some(4), Some(5)]);
    }

    #[test]
    fn every_crate_takes_lints_and_every_library_has_no_doctests() {
        let whole = "[lib]\ndoctest = false\n[lints]\nworkspace = true\n";
        assert!(check_settings("a", whole, true).is_empty());
        let program = "[lints]\nworkspace = true\n";
        assert!(check_settings("a", program, false).is_empty());
        assert_eq!(check_settings("a", program, true).len(), 1);
        assert_eq!(check_settings("a", "", true).len(), 2);
    }

    #[test]
    fn missing_and_empty_papers_are_found() {
        let texts: Vec<(&str, &str)> = REQUIRED.iter().map(|path| (*path, "words")).collect();
        assert!(check_papers(&Repo::from_texts(&texts)).is_empty());
        assert_eq!(check_papers(&Repo::from_texts(&texts[1..])).len(), 1);
        assert_eq!(
            check_papers(&Repo::from_texts(&[("LICENSE", " \n")])).len(),
            REQUIRED.len()
        );
    }
}
