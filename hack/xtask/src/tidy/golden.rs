//! Frozen bytes: every format that crosses a process or a disk has samples that no build may
//! change.

use std::collections::BTreeMap;

use crate::finding::{Finding, Rule};
use crate::repo::Repo;

const GOLDEN: Rule = Rule {
    name: "golden-bytes",
    why: "two releases talk to each other and read each other's files; only frozen bytes show when that breaks",
};

/// Crates with a format of their own: each version has a folder `tests/golden/vN` of `.bin` files.
const FORMAT_CRATES: &[&str] = &["protocol/wire", "noded/keeper", "noded/jail"];

/// Checks that each crate with a format has frozen bytes, and that no version's folder is empty.
pub(super) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in FORMAT_CRATES {
        // A crate of one file has no format yet.
        let source_count = repo.count_under(&format!("{folder}/src"));
        let golden = format!("{folder}/tests/golden");
        if source_count > 1 && repo.count_under(&golden) == 0 {
            findings.push(GOLDEN.on(
                &golden,
                "this crate has a format but no frozen bytes",
                "add tests/golden/v1/NAME.bin for each message, and a test that decodes and re-encodes it",
            ));
        }
    }
    for (version, sizes) in versions(repo) {
        if sizes.is_empty() {
            let what = "a version without any frozen bytes (.bin)";
            findings.push(GOLDEN.on(&version, what, "add one file per message of that version"));
        }
        for (path, _) in sizes.iter().filter(|(_, len)| *len == 0) {
            let fix = "regenerate it; if the message encodes to nothing, set a field in the sample";
            findings.push(GOLDEN.on(path, "an empty sample proves nothing", fix));
        }
    }
    findings
}

/// Per version folder (`.../tests/golden/vN`) its `.bin` files with their sizes.
fn versions(repo: &Repo) -> BTreeMap<String, Vec<(String, u64)>> {
    let mut versions: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for (path, len) in repo.sizes() {
        let Some((before, rest)) = path.split_once("/tests/golden/") else {
            continue;
        };
        let Some((version, name)) = rest.split_once('/') else {
            continue;
        };
        let entry = versions
            .entry(format!("{before}/tests/golden/{version}"))
            .or_default();
        if name.ends_with(".bin") {
            entry.push((path.to_owned(), len));
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(texts: &[(&str, &str)]) -> Vec<String> {
        check(&Repo::from_texts(texts))
            .into_iter()
            .map(|finding| finding.path)
            .collect()
    }

    #[test]
    fn a_crate_with_a_format_needs_frozen_bytes() {
        let code = [
            ("protocol/wire/src/lib.rs", ""),
            ("protocol/wire/src/frame.rs", ""),
        ];
        assert_eq!(whats(&code), ["protocol/wire/tests/golden"]);
        assert!(whats(&code[..1]).is_empty());
        let with = [
            code[0],
            code[1],
            ("protocol/wire/tests/golden/v1/hello.bin", "x"),
        ];
        assert!(whats(&with).is_empty());
    }

    #[test]
    fn a_version_without_samples_or_with_an_empty_one_is_found() {
        let readme = [("noded/keeper/tests/golden/v2/README.md", "x")];
        assert_eq!(whats(&readme), ["noded/keeper/tests/golden/v2"]);
        let empty = [("noded/keeper/tests/golden/v1/exit.bin", "")];
        assert_eq!(whats(&empty), ["noded/keeper/tests/golden/v1/exit.bin"]);
    }
}
