//! What a check has to say: where, what, why it matters, and what to do about it.
//!
//! A message that only names a rule sends its reader searching; so all four parts are required.

use std::fmt;

/// One breach of a rule, as it is printed: `path:line: what`, then the reason and the way out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The short name of the rule, as the allow-list spells it. First, so that findings sort by it.
    pub(crate) rule: &'static str,
    /// The path relative to the root of the tree.
    pub(crate) path: String,
    /// The line, counted from 1, or `None` where the whole file is meant.
    pub(crate) line: Option<usize>,
    /// What is wrong, naming the offending text.
    pub(crate) what: String,
    /// Why the rule exists.
    pub(crate) why: &'static str,
    /// What to do instead.
    pub(crate) fix: String,
}

impl Finding {
    /// Where and what, in one line.
    pub(crate) fn headline(&self) -> String {
        let Self {
            path,
            line,
            rule,
            what,
            ..
        } = self;
        match line {
            Some(line) => format!("{path}:{line}: {what} [{rule}]"),
            None => format!("{path}: {what} [{rule}]"),
        }
    }

    /// Why, and what to do.
    pub(crate) fn advice(&self) -> String {
        format!("  why: {}\n  do:  {}", self.why, self.fix)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.headline(), self.advice())
    }
}

/// A rule with its reason, from which findings are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The short name of the rule.
    pub(crate) name: &'static str,
    /// Why the rule exists.
    pub(crate) why: &'static str,
}

impl Rule {
    /// A finding about one line, counted from 1.
    pub(crate) fn at(
        self,
        path: &str,
        line: usize,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding {
            line: Some(line),
            ..self.on(path, what, fix)
        }
    }

    /// A finding about a whole file or folder.
    pub(crate) fn on(self, path: &str, what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            rule: self.name,
            path: path.to_owned(),
            line: None,
            what: what.into(),
            why: self.why,
            fix: fix.into(),
        }
    }
}
