//! Each name in the glossary's column "In code" is an identifier of this tree.
//!
//! A rename that forgets GLOSSARY.md would leave a reader searching for a type that is gone.

use std::collections::BTreeSet;

use crate::finding::{Finding, Rule};
use crate::repo::Repo;

const GLOSSARY_NAME: Rule = Rule {
    name: "glossary-name",
    why: "a reader of the glossary searches the code for the name that it gives",
};

const PATH: &str = "GLOSSARY.md";
const COLUMN: &str = "In code";

/// One identifier that the glossary names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name<'a> {
    line: usize,
    word: &'a str,
}

/// Checks the glossary against the code, comments and strings left out.
pub(super) fn check(repo: &Repo) -> Vec<Finding> {
    let Some(text) = repo.text(PATH) else {
        return Vec::new();
    };
    let names = names(text);
    let mut missing: BTreeSet<String> = names.iter().map(|name| name.word.to_owned()).collect();
    for (_, source) in repo.sources() {
        for line in &source.code {
            for word in line.split(|c: char| !is_name(c)) {
                missing.remove(word);
            }
        }
        if missing.is_empty() {
            return Vec::new();
        }
    }
    let is_missing = |name: &&Name<'_>| missing.contains(name.word);
    let finding = |name: &Name<'_>| {
        let what = format!("`{}` occurs in no .rs file", name.word);
        let fix = "write the name that the code has now, or leave the column empty";
        GLOSSARY_NAME.at(PATH, name.line, what, fix)
    };
    names.iter().filter(is_missing).map(finding).collect()
}

/// The identifiers between backticks in the column; of a path (`Task::leader`) each part.
fn names(text: &str) -> Vec<Name<'_>> {
    let mut names = Vec::new();
    let mut column = None;
    for (offset, line) in text.lines().enumerate() {
        if !line.starts_with('|') {
            column = None;
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match column {
            None => column = Some(cells.iter().position(|cell| *cell == COLUMN)),
            Some(None) => {}
            Some(Some(column)) => {
                let cell = cells.get(column).copied().unwrap_or_default();
                let quoted = cell.split('`').skip(1).step_by(2);
                let words = quoted.flat_map(|code| code.split("::"));
                names.extend(words.map(|word| Name {
                    line: offset + 1,
                    word,
                }));
            }
        }
    }
    names
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# G\n\n| Word | In code | Means |\n|---|---|---|\n\
        | lead task | `Task::leader` | `other` |\n| job | `Job`, `JobId` | |\n\n\
        | Word | Means |\n|---|---|\n| pure | `none` |\n";

    fn whats(code: &str) -> Vec<String> {
        let repo = Repo::from_texts(&[(PATH, TABLE), ("a.rs", code)]);
        check(&repo)
            .into_iter()
            .map(|finding| finding.headline())
            .collect()
    }

    #[test]
    fn names_in_the_column_are_read_part_by_part() {
        let words: Vec<&str> = names(TABLE).iter().map(|name| name.word).collect();
        assert_eq!(words, ["Task", "leader", "Job", "JobId"]);
    }

    #[test]
    fn names_that_the_code_has_are_accepted() {
        assert!(whats("struct Task { leader: bool }\nstruct Job(JobId);\n").is_empty());
    }

    #[test]
    fn a_name_is_missing_if_only_a_longer_name_has_it() {
        let found = whats("struct Tasks { leader: bool }\nstruct Job(JobId);\n");
        assert_eq!(
            found,
            ["GLOSSARY.md:5: `Task` occurs in no .rs file [glossary-name]"]
        );
    }

    #[test]
    fn a_name_in_a_comment_or_a_string_does_not_count() {
        let found = whats("// Task\nfn leader() { a(\"Task\") }\nstruct Job(JobId);\n");
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
