//! Every file says why it exists, and every crate has a front page.

use crate::finding::{Finding, Rule};
use crate::metadata::Metadata;
use crate::repo::Repo;
use crate::source::Source;

const FILE_DOC: Rule = Rule {
    name: "file-doc",
    why: "the first line a reader sees says what the file is for",
};
const FRONT_PAGE: Rule = Rule {
    name: "front-page",
    why: "a crate is entered through its front page: entry points, inputs, outputs",
};

const PAGE_LINES_MIN: usize = 3;
const PAGE_LINES_MAX: usize = 60;

/// Checks that one Rust file begins with its own documentation.
pub(super) fn check_file(path: &str, source: &Source) -> Option<Finding> {
    let first = source.lines.first().map_or("", String::as_str);
    let says_something = first
        .strip_prefix("//!")
        .is_some_and(|text| !text.trim().is_empty());
    (!says_something).then(|| {
        FILE_DOC.at(
            path,
            1,
            "the file does not begin with `//!`",
            "say in a line or two why it exists",
        )
    })
}

/// Checks the front page of every crate.
pub(super) fn check(repo: &Repo, metadata: &Metadata) -> Vec<Finding> {
    metadata
        .members()
        .filter_map(|member| check_crate(repo, metadata.folder(member)))
        .collect()
}

fn check_crate(repo: &Repo, folder: &str) -> Option<Finding> {
    let candidates = [
        format!("{folder}/src/lib.rs"),
        format!("{folder}/src/main.rs"),
        // Of a crate of tests alone.
        format!("{folder}/tests/it/main.rs"),
    ];
    let fix = format!(
        "write {PAGE_LINES_MIN} to {PAGE_LINES_MAX} lines of `//!`: entry points, inputs, outputs"
    );
    let Some((path, text)) = candidates
        .iter()
        .find_map(|path| Some((path, repo.text(path)?)))
    else {
        return Some(FRONT_PAGE.on(
            folder,
            "neither src/lib.rs nor src/main.rs nor tests/it/main.rs",
            fix,
        ));
    };
    let lines = text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .filter(|line| line.trim_end() != "//!")
        .count();
    let placeholder = text.starts_with("//! To be written");
    if placeholder || !(PAGE_LINES_MIN..=PAGE_LINES_MAX).contains(&lines) {
        return Some(FRONT_PAGE.on(path, format!("the front page has {lines} lines"), fix));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_begins_with_why_it_exists() {
        assert_eq!(check_file("a.rs", &Source::parse("//! Why.\n")), None);
        for text in ["", "fn a() {}\n", "//!\n", "\n//! Why.\n"] {
            assert!(
                check_file("a.rs", &Source::parse(text)).is_some(),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_front_page_has_a_few_lines_and_no_more() {
        let page = |lines: usize| "//! Words.\n".repeat(lines);
        for (lines, good) in [(1, false), (3, true), (60, true), (61, false)] {
            let repo = Repo::from_texts(&[("a/src/lib.rs", &page(lines))]);
            assert_eq!(check_crate(&repo, "a").is_none(), good, "{lines} lines");
        }
        assert!(check_crate(&Repo::from_texts(&[]), "a").is_some());
        let tests_alone = Repo::from_texts(&[("a/tests/it/main.rs", &page(3))]);
        assert_eq!(check_crate(&tests_alone, "a"), None);
    }

    #[test]
    fn a_placeholder_is_no_front_page() {
        let text = "//! To be written.\n//! b\n//! c\n//! d\n";
        assert!(check_crate(&Repo::from_texts(&[("a/src/lib.rs", text)]), "a").is_some());
    }
}
