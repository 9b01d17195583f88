//! The style guide as a program: one module per family of rules, one list of findings.
//!
//! A rule that nothing checks is a wish. Each check is a function from the tree (or from cargo's
//! metadata) to findings, so that a fixture of five lines can show that it fires and when it does
//! not. Exceptions stand in `hack/tidy.toml`, with a reason; one that no longer excuses anything is
//! itself a finding, so the list can only shrink by itself.

mod allow;
mod direction;
mod features;
mod front_page;
mod glossary;
mod golden;
mod leaks;
mod markers;
mod members;
mod openings;
mod purity;
mod size;
mod unsafety;
mod wrap;

use std::path::Path;

use crate::finding::Finding;
use crate::metadata::Metadata;
use crate::repo::Repo;
pub(crate) use wrap::wrap_comments;

/// What tidy found.
#[derive(Debug)]
pub(crate) struct Report {
    /// Breaches of rules; any of them fails the check.
    pub(crate) findings: Vec<Finding>,
    /// Things worth a look that break no rule, such as a file that grows long.
    pub(crate) notes: Vec<String>,
}

/// Checks the tree at `root`.
///
/// # Errors
/// If git, cargo or a file cannot be read; a broken rule is no error here but a finding.
pub(crate) fn check(root: &Path) -> anyhow::Result<Report> {
    let repo = Repo::read(root)?;
    let metadata = Metadata::read(root)?;
    let mut findings = check_texts(&repo);
    findings.extend(direction::check(&metadata));
    findings.extend(features::check(&metadata));
    findings.extend(purity::check(&repo, &metadata));
    findings.extend(members::check(&repo, &metadata));
    findings.extend(front_page::check(&repo, &metadata));
    findings.extend(openings::check(&repo, &metadata));
    findings.extend(leaks::check_root(&repo, root));
    let mut findings = allow::excuse(&repo, findings);
    findings.sort();
    Ok(Report {
        findings,
        notes: size::notes(&repo),
    })
}

/// The checks that need nothing but the files.
fn check_texts(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in repo.sources() {
        findings.extend(size::check(path, &source));
        findings.extend(markers::check(path, &source));
        findings.extend(unsafety::check(path, &source));
        findings.extend(front_page::check_file(path, &source));
    }
    findings.extend(glossary::check(repo));
    findings.extend(golden::check(repo));
    findings.extend(leaks::check(repo));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_tree_is_tidy() {
        let root = Repo::find_root().unwrap();
        let report = check(&root).unwrap();
        let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(
            lines.is_empty(),
            "{} findings\n{}",
            lines.len(),
            lines.join("\n")
        );
    }
}
