//! How long a file and a line may be.

use super::purity::is_test_file;
use crate::finding::{Finding, Rule};
use crate::repo::Repo;
use crate::source::Source;

const FILE_LENGTH: Rule = Rule {
    name: "file-length",
    why: "a file holds one main type or phase; past this length nobody reads it as a whole",
};
const LINE_LENGTH: Rule = Rule {
    name: "line-length",
    why: "two files fit beside each other on a screen at this width",
};

/// Lines outside of tests at which a file must be cut or argued for.
const FILE_LINES_MAX: usize = 600;
/// Lines outside of tests from which on a file is mentioned.
const FILE_LINES_NOTED: usize = 300;
/// As in rustfmt.toml.
pub(super) const LINE_CHARS_MAX: usize = 100;

/// Checks one Rust file.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let length = product_lines(path, source);
    if length > FILE_LINES_MAX {
        findings.push(FILE_LENGTH.on(
            path,
            format!("{length} lines outside of tests, more than {FILE_LINES_MAX}"),
            "cut it where one phase ends and the next begins, or say in hack/tidy.toml why not",
        ));
    }
    for (offset, line) in source.lines.iter().enumerate() {
        let width = line.chars().count();
        if width > LINE_CHARS_MAX && !may_be_long(source, offset) {
            findings.push(LINE_LENGTH.at(
                path,
                offset + 1,
                format!("{width} characters, more than {LINE_CHARS_MAX}"),
                "break the line; `cargo xtask fix` breaks comments",
            ));
        }
    }
    findings
}

/// Long files that break no rule yet, longest first.
pub(super) fn notes(repo: &Repo) -> Vec<String> {
    let mut long: Vec<(usize, &str)> = repo
        .sources()
        .map(|(path, source)| (product_lines(path, &source), path))
        .filter(|(length, _)| (FILE_LINES_NOTED + 1..=FILE_LINES_MAX).contains(length))
        .collect();
    long.sort_by(|a, b| b.cmp(a));
    long.into_iter()
        .map(|(length, path)| format!("{path}: {length} lines outside of tests"))
        .collect()
}

fn product_lines(path: &str, source: &Source) -> usize {
    if is_test_file(path) {
        0
    } else {
        source.product_line_count()
    }
}

/// A literal cannot be broken without changing it, and a link not without breaking it.
fn may_be_long(source: &Source, offset: usize) -> bool {
    let line = &source.lines[offset];
    let code = source.code.get(offset).map_or("", String::as_str);
    let comment = source.comments.get(offset).map_or("", String::as_str);
    let inside_text = code.trim().is_empty() && comment.trim().is_empty();
    line.contains("://") || code.contains('"') || inside_text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        check(path, &Source::parse(text))
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn tests_do_not_count_towards_the_length() {
        let code = "fn a() {}\n".repeat(600);
        assert!(rules("a.rs", &code).is_empty());
        assert_eq!(
            rules("a.rs", &format!("{code}fn b() {{}}\n")),
            ["file-length"]
        );
        let tests = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            "    fn a() {}\n".repeat(700)
        );
        assert!(rules("a.rs", &format!("{code}{tests}")).is_empty());
        assert!(rules("a/tests/it/main.rs", &code.repeat(2)).is_empty());
    }

    #[test]
    fn long_code_and_comments_are_found_but_not_literals_and_links() {
        let long = "x".repeat(100);
        assert_eq!(rules("a.rs", &format!("// {long}\n")), ["line-length"]);
        assert_eq!(
            rules("a.rs", &format!("let {long} = 1;\n")),
            ["line-length"]
        );
        assert!(rules("a.rs", &format!("// https://{long}\n")).is_empty());
        assert!(rules("a.rs", &format!("let a = \"{long}\";\n")).is_empty());
        assert!(rules("a.rs", &format!("let a = \"\n{long}x\n\";\n")).is_empty());
    }

    #[test]
    fn files_between_the_two_limits_are_noted() {
        let text = "fn a() {}\n".repeat(301);
        let repo = Repo::from_texts(&[("a.rs", &text), ("b.rs", "fn a() {}\n")]);
        assert_eq!(notes(&repo), ["a.rs: 301 lines outside of tests"]);
    }
}
