//! Pure crates decide and never act: their clippy.toml, their dependencies and their imports.
//!
//! Clippy does the fine work (`disallowed-methods`), but reads only the nearest clippy.toml and
//! merges nothing, so each pure crate repeats one block of bans. Here we see to it that the block
//! is there and equal everywhere, and catch whole modules that clippy would need a line per
//! function for.

use super::direction::PURE;
use crate::finding::{Finding, Rule};
use crate::metadata::Metadata;
use crate::repo::Repo;
use crate::source::Source;

const PURITY: Rule = Rule {
    name: "pure-crate",
    why: "a pure crate gives the same answer for the same input, or neither replay nor simulation nor replicas agree",
};

/// Where the block of bans is kept; the others are compared with it.
const REFERENCE: &str = "protocol/model/clippy.toml";
const BLOCK_BEGIN: &str = "# --- pure crate: common block ---";
const BLOCK_END: &str = "# --- end of common block ---";

/// Dependencies that read a clock, draw randomness or touch the outside.
const PURE_FORBIDDEN: &[&str] = &[
    "aws-lc-rs",
    "axum",
    "caps",
    "cgroups-rs",
    "getrandom",
    "hyper",
    "hyper-util",
    "io-uring",
    "libc",
    "mio",
    "netlink-sys",
    "nix",
    "openraft",
    "quinn",
    "rand",
    "rcgen",
    "reqwest",
    "rustix",
    "rustls",
    "seccompiler",
    "sd-notify",
    "tokio",
    "tokio-rustls",
    "tokio-tungstenite",
    "tokio-uring",
    "tokio-util",
    "tower",
];

/// The syscall crates run where an async runtime must not be: after a fork, in a single thread.
const SYSCALL_CRATES: &[&str] = &["isolation", "netns", "noded-keeper"];
const SYSCALL_FORBIDDEN: &[&str] = &[
    "tokio",
    "tokio-uring",
    "tokio-util",
    "quinn",
    "hyper",
    "axum",
    "mio",
];

/// Modules of the standard library that act, as they appear in a path or an import.
const ACTING_PATHS: &[&str] = &[
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "std::os",
    "std::net::Tcp",
    "std::net::Udp",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::sync::mpsc",
    "tokio::",
    "HashMap",
    "HashSet",
];

/// Checks every pure and every syscall crate.
pub(super) fn check(repo: &Repo, metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in metadata.members() {
        let folder = metadata.folder(member);
        let is_pure = PURE.contains(&member.name.as_str());
        let forbidden = match () {
            () if is_pure => PURE_FORBIDDEN,
            () if SYSCALL_CRATES.contains(&member.name.as_str()) => SYSCALL_FORBIDDEN,
            () => continue,
        };
        for dependency in &member.dependencies {
            if dependency.kind.is_none() && forbidden.contains(&dependency.name.as_str()) {
                findings.push(PURITY.on(
                    &format!("{folder}/Cargo.toml"),
                    format!("{} depends on {}", member.name, dependency.name),
                    "return what should be done as data and let a shell do it",
                ));
            }
        }
        if is_pure {
            findings.extend(check_clippy(repo, folder));
            findings.extend(check_imports(repo, folder));
        }
    }
    findings
}

fn check_clippy(repo: &Repo, folder: &str) -> Option<Finding> {
    let path = format!("{folder}/clippy.toml");
    let reference = repo.text(REFERENCE).and_then(block);
    let Some(reference) = reference else {
        return Some(PURITY.on(
            REFERENCE,
            "the common block of bans is missing",
            format!("put it between `{BLOCK_BEGIN}` and `{BLOCK_END}`"),
        ));
    };
    let what = match repo.text(&path).map(block) {
        None => "a pure crate needs its own clippy.toml",
        Some(None) => "the common block of bans is missing",
        Some(Some(found)) if found != reference => "the common block of bans differs",
        Some(Some(_)) => return None,
    };
    Some(PURITY.on(
        &path,
        what,
        format!("copy the block from {REFERENCE}; additions go below it"),
    ))
}

/// The text between the two markers.
fn block(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(BLOCK_BEGIN)?;
    let (block, _) = rest.split_once(BLOCK_END)?;
    Some(block)
}

fn check_imports(repo: &Repo, folder: &str) -> Vec<Finding> {
    let sources = format!("{folder}/src/");
    repo.sources()
        .filter(|(path, _)| path.starts_with(&sources) && !is_test_file(path))
        .flat_map(|(path, source)| acting_lines(path, &source))
        .collect()
}

/// A module of tests in a file of its own: `tests.rs`, or anything in a `tests` folder.
pub(super) fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.ends_with("_tests.rs")
}

fn acting_lines(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in source.product_code() {
        for acting in ACTING_PATHS.iter().filter(|acting| has_path(line, acting)) {
            findings.push(PURITY.at(
                path,
                number,
                format!("`{acting}` in a pure crate"),
                "take the value as an argument, or return the action as data",
            ));
        }
    }
    findings
}

/// Whether the path occurs as a path, not as the tail of a longer word.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let open_ended = path.ends_with("::") || path.ends_with("Tcp") || path.ends_with("Udp");
        !is_word(before) && (open_ended || !is_word(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acting(text: &str) -> Vec<usize> {
        acting_lines("a.rs", &Source::parse(text))
            .into_iter()
            .filter_map(|f| f.line)
            .collect()
    }

    #[test]
    fn acting_modules_are_found_in_code_but_not_in_comments_or_tests() {
        let text = "//! std::fs is not used\nuse std::fs::File;\n#[cfg(test)]\nmod tests {\n    \
                    use std::fs;\n}\nuse std::net::IpAddr;\nuse std::net::TcpStream;\n";
        assert_eq!(acting(text), [2, 8]);
    }

    #[test]
    fn a_longer_word_is_another_word() {
        assert!(acting("struct MyHashMap; struct HashMapLike;\n").is_empty());
        assert_eq!(acting("use std::collections::HashMap;\n"), [1]);
    }

    #[test]
    fn the_block_must_equal_the_reference() {
        let block = |ban: &str| format!("{BLOCK_BEGIN}\n{ban}\n{BLOCK_END}\n");
        let (good, bad) = (block("a"), block("b"));
        let repo = Repo::from_texts(&[
            (REFERENCE, &good),
            ("same/clippy.toml", &good),
            ("other/clippy.toml", &bad),
            ("none/clippy.toml", "x = 1\n"),
        ]);
        assert_eq!(check_clippy(&repo, "same"), None);
        for (folder, what) in [
            ("other", "the common block of bans differs"),
            ("none", "the common block of bans is missing"),
            ("gone", "a pure crate needs its own clippy.toml"),
        ] {
            assert_eq!(check_clippy(&repo, folder).unwrap().what, what);
        }
    }
}
