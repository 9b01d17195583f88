//! Comments and messages that begin with a free relative ("What ...", "Whoever ...") instead of a
//! noun are counted per crate; the count may fall and never rise.
//!
//! `hack/xtask/banned-openings.txt` holds one line per crate: `CRATE COUNT`. A crate without a line
//! may have none. Tests are counted, too.

use std::collections::BTreeMap;

use crate::finding::{Finding, Rule};
use crate::metadata::Metadata;
use crate::repo::Repo;
use crate::source::Source;

const OPENINGS: Rule = Rule {
    name: "banned-opening",
    why: "a sentence that begins with its noun is understood at the first reading",
};

const PATH: &str = "hack/xtask/banned-openings.txt";

/// Without a capital, since messages begin small.
const BANNED: &[&str] = &[
    "what",
    "whatever",
    "who",
    "whoever",
    "nobody",
    "somebody",
    "that which",
    "one that",
];

/// Checks every crate's count against its line.
pub(super) fn check(repo: &Repo, metadata: &Metadata) -> Vec<Finding> {
    let crates: Vec<(&str, &str)> = metadata
        .members()
        .map(|member| (member.name.as_str(), metadata.folder(member)))
        .collect();
    check_crates(repo, &crates)
}

/// `crates` are names and folders.
fn check_crates(repo: &Repo, crates: &[(&str, &str)]) -> Vec<Finding> {
    let (limits, mut findings) = limits(repo.text(PATH).unwrap_or_default());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, source) in repo.sources() {
        if let Some(name) = crate_of(path, crates) {
            *counts.entry(name).or_default() += count(&source);
        }
    }
    for (name, folder) in crates {
        let count = counts.get(name).copied().unwrap_or_default();
        let limit = limits.get(name).map_or(0, |limit| limit.count);
        if count > limit {
            let what = format!("{name} has {count} banned openings, {limit} are allowed");
            let fix = format!(
                "begin each new comment or message with its noun (STYLE.md, Writing); show them \
                 with: grep -rniE '(//[/!]? |\")(what|whatever|who|whoever|nobody|somebody|that \
                 which|one that)\\b' --include=*.rs {folder}"
            );
            findings.push(OPENINGS.at(PATH, limits.get(name).map_or(1, |l| l.line), what, fix));
        }
    }
    for (name, limit) in &limits {
        if !crates.iter().any(|(known, _)| known == name) {
            let what = format!("`{name}` is no crate of this workspace");
            findings.push(OPENINGS.at(PATH, limit.line, what, "delete the line"));
        }
    }
    findings
}

/// One line of the list.
#[derive(Debug, Clone, Copy)]
struct Limit {
    line: usize,
    count: usize,
}

fn limits(text: &str) -> (BTreeMap<&str, Limit>, Vec<Finding>) {
    let mut limits = BTreeMap::new();
    let mut findings = Vec::new();
    for (offset, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line_number = offset + 1;
        match line.split_once(' ').map(|(name, n)| (name, n.parse())) {
            Some((name, Ok(count))) => {
                let limit = Limit {
                    line: line_number,
                    count,
                };
                limits.insert(name, limit);
            }
            Some((_, Err(_))) | None => {
                let what = format!("`{line}` is not `CRATE COUNT`");
                findings.push(OPENINGS.at(PATH, line_number, what, "write `CRATE COUNT`"));
            }
        }
    }
    (limits, findings)
}

/// The crate with the longest folder around the file: crates lie inside of others' folders.
fn crate_of<'a>(path: &str, crates: &[(&'a str, &str)]) -> Option<&'a str> {
    let inside = |folder: &str| {
        path.strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    crates
        .iter()
        .filter(|(_, folder)| inside(folder))
        .max_by_key(|(_, folder)| folder.len())
        .map(|(name, _)| *name)
}

/// Banned openings of one file: of paragraphs in comments and of string literals.
fn count(source: &Source) -> usize {
    let mut count = 0;
    let mut goes_on = false;
    for (offset, comment) in source.comments.iter().enumerate() {
        let words = comment.trim().trim_start_matches(['/', '!']).trim_start();
        count += usize::from(!goes_on && is_banned(words));
        goes_on = !words.is_empty();
        count += literals(&source.lines[offset], &source.code[offset])
            .filter(|text| is_banned(text))
            .count();
    }
    count
}

/// The rest of the line behind each quote that opens or closes a literal.
fn literals<'a>(line: &'a str, code: &'a str) -> impl Iterator<Item = &'a str> {
    line.char_indices()
        .zip(code.chars())
        .filter(|(_, code)| *code == '"')
        .map(|((at, _), _)| &line[at + 1..])
}

fn is_banned(words: &str) -> bool {
    BANNED.iter().any(|banned| {
        words.get(..banned.len()).is_some_and(|start| {
            start.eq_ignore_ascii_case(banned) && words[banned.len()..].starts_with(' ')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_of(text: &str) -> usize {
        count(&Source::parse(text))
    }

    fn whats(list: &str, code: &str) -> Vec<String> {
        let repo = Repo::from_texts(&[(PATH, list), ("a/src/lib.rs", code)]);
        let findings = check_crates(&repo, &[("room-a", "a")]);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_comment_that_opens_with_a_free_relative_is_counted() {
        assert_eq!(count_of("/// What a part wants done.\n"), 1);
        assert_eq!(
            count_of("//! Whoever reads this.\n//\n// One that is.\n"),
            2
        );
    }

    #[test]
    fn the_second_line_of_a_paragraph_is_no_opening() {
        assert_eq!(count_of("/// The node sees\n/// what it did.\n"), 0);
    }

    #[test]
    fn a_message_is_counted_and_the_code_around_it_is_not() {
        assert_eq!(count_of("fail(\"nobody leads\"); let what = who ;\n"), 1);
    }

    #[test]
    fn a_longer_word_is_not_banned() {
        assert_eq!(count_of("/// Whole words.\n\n/// Whoami is a tool.\n"), 0);
    }

    #[test]
    fn a_count_above_the_line_is_a_finding_and_below_it_is_none() {
        let code = "/// What a.\nfn a() {}\n/// What b.\nfn b() {}\n";
        assert!(whats("room-a 2\n", code).is_empty());
        assert!(whats("room-a 3\n", code).is_empty());
        assert_eq!(
            whats("room-a 1\n", code),
            ["room-a has 2 banned openings, 1 are allowed"]
        );
        assert_eq!(whats("", code).len(), 1);
    }

    #[test]
    fn a_line_that_cannot_be_read_or_names_no_crate_is_a_finding() {
        let found = whats("# why\nroom-a many\nroom-b 1\n", "");
        assert_eq!(
            found,
            [
                "`room-a many` is not `CRATE COUNT`",
                "`room-b` is no crate of this workspace"
            ]
        );
    }

    #[test]
    fn a_file_belongs_to_the_innermost_crate() {
        let crates = [("outer", "a"), ("inner", "a/b")];
        assert_eq!(crate_of("a/b/src/lib.rs", &crates), Some("inner"));
        assert_eq!(crate_of("a/bc/src/lib.rs", &crates), Some("outer"));
        assert_eq!(crate_of("c/lib.rs", &crates), None);
    }
}
