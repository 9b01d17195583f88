//! Exceptions: `hack/tidy.toml` says which rule is broken where, and why that is better there.

use serde::Deserialize;

use crate::finding::{Finding, Rule};
use crate::repo::Repo;

/// Where the exceptions stand.
pub(crate) const ALLOW_FILE: &str = "hack/tidy.toml";

const ALLOW: Rule = Rule {
    name: "allow-list",
    why: "an exception without a reason, or without a breach, hides the next real one",
};

/// A reason shorter than this is a shrug.
const REASON_CHARS_MIN: usize = 20;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowFile {
    #[serde(default)]
    allow: Vec<Allow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allow {
    /// The rule's short name, as it stands in brackets in the finding.
    rule: String,
    /// The file, or a folder with a slash at its end.
    path: String,
    reason: String,
}

impl Allow {
    fn excuses(&self, finding: &Finding) -> bool {
        let same_place = self.path == finding.path
            || (self.path.ends_with('/') && finding.path.starts_with(&self.path));
        self.rule == finding.rule && same_place
    }
}

/// Removes the findings that the list excuses and adds findings about the list itself.
pub(crate) fn excuse(repo: &Repo, findings: Vec<Finding>) -> Vec<Finding> {
    let text = repo.text(ALLOW_FILE).unwrap_or_default();
    let list: AllowFile = match toml::from_str(text) {
        Ok(list) => list,
        Err(error) => {
            let mut findings = findings;
            findings.push(ALLOW.on(
                ALLOW_FILE,
                format!("cannot be read: {error}"),
                "write [[allow]] tables with rule, path and reason",
            ));
            return findings;
        }
    };
    let mut kept: Vec<Finding> = Vec::new();
    let mut used = vec![false; list.allow.len()];
    for finding in findings {
        match list.allow.iter().position(|allow| allow.excuses(&finding)) {
            Some(offset) => used[offset] = true,
            None => kept.push(finding),
        }
    }
    for (allow, used) in list.allow.iter().zip(used) {
        let name = format!("{} at {}", allow.rule, allow.path);
        if !used {
            kept.push(ALLOW.on(
                ALLOW_FILE,
                format!("nothing breaks {name} any more"),
                "delete the entry",
            ));
        }
        if allow.reason.chars().count() < REASON_CHARS_MIN {
            kept.push(ALLOW.on(
                ALLOW_FILE,
                format!("the reason for {name} says too little"),
                "say what the rule would cost there",
            ));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        name: "demo",
        why: "a reason",
    };

    fn excused(list: &str, path: &str) -> Vec<String> {
        let repo = Repo::from_texts(&[(ALLOW_FILE, list)]);
        let findings = vec![RULE.at(path, 3, "what", "fix")];
        excuse(&repo, findings)
            .into_iter()
            .map(|f| f.what)
            .collect()
    }

    #[test]
    fn an_entry_excuses_its_rule_in_its_file_only() {
        let list = "[[allow]]\nrule='demo'\npath='a.rs'\nreason='because of a long story'\n";
        assert!(excused(list, "a.rs").is_empty());
        assert_eq!(excused(list, "b.rs").len(), 2);
    }

    #[test]
    fn a_folder_excuses_what_lies_under_it() {
        let list = "[[allow]]\nrule='demo'\npath='a/'\nreason='because of a long story'\n";
        assert!(excused(list, "a/b/c.rs").is_empty());
    }

    #[test]
    fn an_entry_without_a_breach_is_a_finding() {
        let list = "[[allow]]\nrule='other'\npath='a.rs'\nreason='because of a long story'\n";
        assert_eq!(
            excused(list, "a.rs"),
            ["what", "nothing breaks other at a.rs any more"]
        );
    }

    #[test]
    fn a_shrug_is_no_reason() {
        let list = "[[allow]]\nrule='demo'\npath='a.rs'\nreason='meh'\n";
        assert_eq!(
            excused(list, "a.rs"),
            ["the reason for demo at a.rs says too little"]
        );
    }

    #[test]
    fn an_unreadable_list_excuses_nothing() {
        assert_eq!(excused("[[allow]]\nrule=1\n", "a.rs").len(), 2);
    }
}
