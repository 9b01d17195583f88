//! `unsafe` lives under `src/sys/` of the syscall crates and nowhere else.
//!
//! The compiler denies it too, until somebody writes an `allow`; so the attribute is watched as
//! well.

use crate::finding::{Finding, Rule};
use crate::source::Source;

const UNSAFE: Rule = Rule {
    name: "unsafe-outside-sys",
    why: "what can break memory or the host is read line by line in review, so it stands in one place per crate",
};

/// The crates that talk to the kernel without a safe wrapper.
const SYS_FOLDERS: &[&str] = &[
    "isolation/src/sys",
    "netns/src/sys",
    "noded/keeper/src/sys",
    "protocol/transport/src/sys",
];

/// Looks for the keyword outside of the `sys` folders, and for lint exceptions on anything but `mod
/// sys`.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    if in_sys(path) {
        return Vec::new();
    }
    let fix = format!(
        "move it under {} or find a safe call in rustix or nix",
        SYS_FOLDERS.join(", ")
    );
    let mut findings = Vec::new();
    for (number, line) in source.all_code() {
        if has_word(line, "unsafe") {
            findings.push(UNSAFE.at(path, number, "`unsafe` outside of src/sys/", &fix));
        }
        let excepts =
            (line.contains("allow(") || line.contains("expect(")) && has_word(line, "unsafe_code");
        if excepts && !guards_mod_sys(source, number) {
            findings.push(UNSAFE.at(
                path,
                number,
                "the lint `unsafe_code` is switched off for something else than `mod sys`",
                &fix,
            ));
        }
    }
    findings
}

fn in_sys(path: &str) -> bool {
    SYS_FOLDERS.iter().any(|folder| {
        path.strip_prefix(folder)
            .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    })
}

/// Whether the attribute on this line (counted from 1) stands on `mod sys`.
fn guards_mod_sys(source: &Source, number: usize) -> bool {
    let attribute = &source.code[number - 1];
    let same_line = attribute
        .rsplit_once(']')
        .map(|(_, rest)| rest.trim())
        .unwrap_or_default();
    let following = source.code[number..].iter().map(|line| line.trim());
    let item = std::iter::once(same_line)
        .chain(following)
        .find(|line| !line.is_empty() && !line.starts_with("#[") && !line.ends_with(")]"))
        .unwrap_or_default();
    matches!(item, "mod sys;" | "pub mod sys;" | "pub(crate) mod sys;")
}

/// Whether the word occurs, bounded by characters that cannot belong to a name.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_name)
            && !line[at + word.len()..].chars().next().is_some_and(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(path, &Source::parse(text))
            .into_iter()
            .filter_map(|f| f.line)
            .collect()
    }

    #[test]
    fn the_keyword_is_found_outside_sys_only() {
        let text = "// unsafe to say\nfn f() { unsafe { g() } }\n";
        assert_eq!(lines("noded/daemon/src/a.rs", text), [2]);
        assert_eq!(lines("netns/tests/it/main.rs", text), [2]);
        assert!(lines("netns/src/sys/socket.rs", text).is_empty());
        assert!(lines("netns/src/sys.rs", text).is_empty());
        assert_eq!(lines("noded/daemon/src/sys/a.rs", text), [2]);
        assert_eq!(lines("netns/src/system.rs", text), [2]);
    }

    #[test]
    fn only_mod_sys_may_switch_the_lint_off() {
        assert!(lines("isolation/src/lib.rs", "#[allow(unsafe_code)]\nmod sys;\n").is_empty());
        let reasoned = "#[expect(unsafe_code, reason = \"a\")]\npub(crate) mod sys;\n";
        assert!(lines("isolation/src/lib.rs", reasoned).is_empty());
        let long = "#[expect(\n    unsafe_code,\n    reason = \"a\"\n)]\nmod sys;\n";
        assert!(lines("isolation/src/lib.rs", long).is_empty());
        assert_eq!(
            lines(
                "isolation/src/lib.rs",
                "#[allow(unsafe_code)]\nmod other;\n"
            ),
            [1]
        );
        assert_eq!(
            lines(
                "isolation/src/lib.rs",
                "#![allow(unsafe_code)]\nmod other;\n"
            ),
            [1]
        );
    }
}
