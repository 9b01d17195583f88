//! Words that say "not finished": they must not land, or must name an issue.

use super::unsafety::has_word;
use crate::finding::{Finding, Rule};
use crate::source::Source;

const UNFINISHED: Rule = Rule {
    name: "unfinished",
    why: "what is left out is written where people plan, not where nobody looks until it breaks",
};
const SKIPPED: Rule = Rule {
    name: "ignored-test",
    why: "an ignored test looks green forever; one that cannot run here says \"skipped: needs ...\" instead",
};
const BARE_ALLOW: Rule = Rule {
    name: "bare-allow",
    why: "an exception from a lint is an argument, and `expect` reports when it is no longer needed",
};

/// Spelled in halves, so that this file does not find itself when it is quoted.
const WORDS: &[&str] = &[concat!("FIX", "ME"), concat!("XX", "X")];
const TODO: &str = concat!("TO", "DO");
const MACROS: &[&str] = &["todo!", "unimplemented!", "dbg!"];

/// Checks one Rust file, tests included.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (offset, comment) in source.comments.iter().enumerate() {
        for word in WORDS.iter().filter(|word| has_word(comment, word)) {
            let what = format!("`{word}` in a comment");
            findings.push(UNFINISHED.at(path, offset + 1, what, "finish it, or open an issue"));
        }
        if has_word(comment, TODO) && !names_issue(comment) {
            let what = format!("`{TODO}` without an issue");
            let fix = format!("write `{TODO}(#123): ...` with the number of an open issue");
            findings.push(UNFINISHED.at(path, offset + 1, what, fix));
        }
    }
    for (number, line) in source.all_code() {
        for name in MACROS.iter().filter(|name| calls_macro(line, name)) {
            let what = format!("`{name}` in code");
            findings.push(UNFINISHED.at(path, number, what, "finish it, or return an error"));
        }
        let attribute = line.trim_start();
        if attribute.starts_with("#[ignore") {
            let fix = "let it run where it can and print \"skipped: needs ...\" where it cannot";
            findings.push(SKIPPED.at(path, number, "`#[ignore]` on a test", fix));
        }
        let bare = attribute.starts_with("#[allow(") || attribute.starts_with("#![allow(");
        if bare && !line.contains("unsafe_code") && !gives_reason(source, number) {
            let fix = "write `#[expect(lint, reason = \"...\")]`";
            findings.push(BARE_ALLOW.at(path, number, "`allow` without a reason", fix));
        }
    }
    findings
}

fn names_issue(comment: &str) -> bool {
    let marker = format!("{TODO}(#");
    comment
        .split(marker.as_str())
        .skip(1)
        .all(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        && comment.contains(&marker)
}

fn calls_macro(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        !line[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_')
            && line[at + name.len()..].starts_with(['(', '[', '{'])
    })
}

/// Whether the attribute that begins on this line says `reason =` before it ends.
fn gives_reason(source: &Source, number: usize) -> bool {
    for line in &source.code[number - 1..] {
        if line.contains("reason =") {
            return true;
        }
        if line.contains(")]") {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(text: &str) -> Vec<String> {
        check("a.rs", &Source::parse(text))
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn unfinished_words_in_comments_are_found() {
        let word = WORDS[0];
        assert_eq!(
            whats(&format!("// {word} later\n")),
            [format!("`{word}` in a comment")]
        );
        assert!(whats(&format!("let a = \"{word}\";\n")).is_empty());
    }

    #[test]
    fn a_todo_needs_the_number_of_an_issue() {
        assert_eq!(whats(&format!("// {TODO}: a\n")).len(), 1);
        assert_eq!(whats(&format!("// {TODO}(me): a\n")).len(), 1);
        assert_eq!(whats(&format!("// {TODO}(#): a\n")).len(), 1);
        assert!(whats(&format!("// {TODO}(#12): a\n")).is_empty());
    }

    #[test]
    fn placeholder_macros_are_found_as_calls_only() {
        assert_eq!(whats("fn f() { todo!() }\n"), ["`todo!` in code"]);
        assert_eq!(whats("fn f() { dbg![1]; }\n"), ["`dbg!` in code"]);
        assert!(whats("let a = \"todo!()\"; // todo!()\n").is_empty());
        assert!(whats("my_todo!();\n").is_empty());
    }

    #[test]
    fn ignored_tests_and_bare_allows_are_found() {
        assert_eq!(
            whats("#[test]\n#[ignore = \"slow\"]\nfn a() {}\n"),
            ["`#[ignore]` on a test"]
        );
        assert_eq!(
            whats("#[allow(dead_code)]\nfn a() {}\n"),
            ["`allow` without a reason"]
        );
        assert!(whats("#[allow(dead_code, reason = \"a\")]\nfn a() {}\n").is_empty());
        assert!(whats("#[allow(\n    dead_code,\n    reason = \"a\"\n)]\nfn a() {}\n").is_empty());
    }
}
