//! From what is said of a job to its line in the job file. Validation and warnings look at the
//! canonical job, which has no lines; the place that they name (`group "web" > task "server" >
//! resources > cpu`) is followed through the file here, be it HCL2 or JSON.
//!
//! Where the file does not say what is spoken of (it left it out, or a `dynamic` block made it),
//! the innermost block on the way stands for it.

mod hcl;
mod json;

use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use crate::syntax;
use crate::text::without_mark;
use hcl_edit::structure::Body;
use protocol_model::{ValidationErrors, Warning};

/// What a group or task takes from the blocks around it when it has none of its own.
const INHERITED: [&str; 5] = ["migrate", "reschedule", "restart", "update", "vault"];
/// What warnings name without the service that it stands in.
const OF_SERVICES: [&str; 2] = ["check", "connect"];

/// The places of a job file that could be read.
#[derive(Debug)]
pub struct Places {
    source: Source,
    tree: Tree,
}

#[derive(Debug)]
enum Tree {
    Hcl(Body),
    Json,
}

impl Places {
    /// Those of `text`, which messages call `name`. `None` for a text that cannot be read, or holds
    /// no job.
    pub fn of(name: &str, text: &str) -> Option<Self> {
        let source = Source::new(name, without_mark(text));
        if source.text.trim_start().starts_with('{') {
            json::job(&source.text)?;
            let tree = Tree::Json;
            return Some(Self { source, tree });
        }
        let mut problems = Diagnostics::default();
        let body = syntax::parse(&source, &mut problems).body;
        if !problems.is_empty() {
            return None;
        }
        body.get_blocks("job").next()?;
        let tree = Tree::Hcl(body);
        Some(Self { source, tree })
    }

    /// The mistakes of the job, each with its place.
    pub fn mistakes(&self, errors: &ValidationErrors) -> Diagnostics {
        let mut problems = Diagnostics::default();
        for error in &errors.errors {
            let span = self.place(&error.path);
            problems.report(&self.source, &span, error.to_string(), error.hint.clone());
        }
        problems.omit(errors.omitted);
        problems.sort();
        problems
    }

    /// What is not honoured, with its place.
    pub fn warning(&self, warning: &Warning) -> Diagnostic {
        let span = self.place(&warning.path);
        self.source.diagnostic(&span, warning.to_string(), None)
    }

    fn place(&self, path: &str) -> Span {
        let found = match &self.tree {
            Tree::Hcl(body) => body
                .get_blocks("job")
                .next()
                .map(|job| hcl::place(job, path)),
            Tree::Json => json::place(&self.source.text, path),
        };
        found.unwrap_or(0..0)
    }
}

/// The steps of a path: a word, and what tells it from others of its kind: a name as Rust writes
/// it, a position counted from 1, or nothing. `network port` is two steps.
fn words(path: &str) -> Vec<(&str, &str)> {
    let mut steps: Vec<(&str, &str)> = Vec::new();
    for segment in path.split(" > ") {
        let mut rest = segment;
        while !rest.is_empty() {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            if after.starts_with('"') || after.parse::<usize>().is_ok() {
                steps.push((word, after));
                break;
            }
            steps.push((word, ""));
            rest = after;
        }
    }
    steps
}
