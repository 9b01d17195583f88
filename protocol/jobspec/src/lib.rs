//! Job files: HCL2 or JSON in, [`protocol_model::Job`] out.
//!
//! [`parse`] takes the text and everything a job file may read beside it as [`Inputs`] (variable
//! values, file contents, the time, a seed) and returns the job as written, neither canonicalized
//! nor validated, or all problems of the file as [`Diagnostics`], each with file, line, column,
//! the offending text and, where there is one, a hint.
//!
//! ```text
//! text --syntax--> body --variables, locals--> Scope
//!                    `--job block, along schema/ tables--> API JSON --serde--> Job
//! ```
//!
//! - `syntax`: the tree of a text, also of one that is wrong in several places.
//! - `value`, `eval`, `functions`: the expression language. An unknown root such as
//!   `${attr.kernel.name}` or `${NOMAD_PORT_http}` stays in the text for the node.
//! - `variables`, `locals`, `type_constraint`: what expressions can name.
//! - `schema`, `decode`: which blocks and attributes there are, and how they become JSON.
//! - `json`: job files that are JSON already.
//! - `pool`, `namespace`: files of node pools and namespaces, which use the same tables
//!   ([`parse_pool`], [`parse_namespace`], [`parse_variable`]).
//! - `places`: the lines of what validation finds later, and of warnings ([`Places`]).
//!
//! Limits: [`SOURCE_BYTES_MAX`] bytes of text, 64 levels of nesting (the syntax parser's), a
//! budget of produced bytes and evaluated expressions for `dynamic`, `for` and functions, 64
//! levels of nested values, [`DIAGNOSTICS_MAX`] problems, 20 of them of syntax.

mod decode;
mod diagnostic;
mod eval;
mod functions;
mod inputs;
mod json;
mod locals;
mod namespace;
mod places;
mod pool;
mod references;
mod schema;
mod single;
mod suggestion;
mod syntax;
mod text;
mod type_constraint;
mod value;
mod variable;
mod variables;
mod written;

pub use self::diagnostic::{DIAGNOSTICS_MAX, Diagnostic, Diagnostics};
pub use self::inputs::{Directories, FileError, Inputs, NoFiles, VariableFile, Variables};
pub use self::namespace::parse_namespace;
pub use self::places::Places;
pub use self::pool::parse_pool;
pub use self::text::decode_text;
pub use self::variable::parse_variable;

use self::decode::{BlockView, Decoder, Problems};
use self::diagnostic::Source;
use self::eval::{Machine, Scope, Unknown, span_of};
use self::syntax::{Damage, Syntax};
use self::text::without_mark;
use hcl_edit::structure::{Block, Body, Structure};
use protocol_model::Job;
use serde::Deserialize;
use serde_json::Value as Json;

/// Largest job file and variable file, as the default of Nomad's `job_max_source_size`.
pub const SOURCE_BYTES_MAX: usize = 1024 * 1024;

/// A job file that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The job as the file says it; the caller canonicalizes and validates.
    pub job: Job,
    /// What is allowed but probably not meant.
    pub warnings: Vec<Diagnostic>,
    /// What the file says, with the keys of the API.
    said: Json,
}

impl Parsed {
    /// The job as API JSON with null for everything that the file does not say, as Nomad's parser
    /// answers it.
    pub fn written(&self) -> Json {
        written::written(&self.said, &self.job)
    }
}

/// Reads a job file. `name` is what messages call it; a text whose first character is `{` is
/// JSON, anything else is HCL2.
///
/// # Errors
///
/// All problems of the file. After a syntax error the rest is read as if that statement were not
/// there; where it is not certain which block is in which, syntax errors are all that is told.
pub fn parse(name: &str, text: &str, inputs: &mut dyn Inputs) -> Result<Parsed, Diagnostics> {
    let text = without_mark(text);
    if text.len() > SOURCE_BYTES_MAX {
        let length = text.len();
        let message = format!("the file has {length} bytes, the limit is {SOURCE_BYTES_MAX}");
        return Err(Source::new(name, "")
            .diagnostic(&(0..0), message, None)
            .into());
    }
    let source = Source::new(name, text);
    let mut warnings = Diagnostics::default();
    let (job, said) = if source.text.trim_start().starts_with('{') {
        json::parse(&source, &mut warnings)?
    } else {
        let mut machine = Machine::new(inputs);
        let parsed = parse_hcl(&source, &mut machine)?;
        warnings = machine.warnings;
        machine.undefined.report(&source, &mut warnings);
        parsed
    };
    dropped_secrets(&source, &job, &mut warnings);
    warnings.sort();
    Ok(Parsed {
        job,
        warnings: warnings.list().to_vec(),
        said,
    })
}

/// Tokens that older job files carry: they are never kept, and whoever wrote one hears of it.
fn dropped_secrets(source: &Source, job: &Job, warnings: &mut Diagnostics) {
    let secrets = [
        ("consul_token", "ConsulToken", &job.consul_token),
        ("vault_token", "VaultToken", &job.vault_token),
    ];
    for (name, key, secret) in secrets {
        if secret.is_none() {
            continue;
        }
        let place = [name, key]
            .iter()
            .find_map(|word| source.text.find(word).map(|at| at..at + word.len()));
        let message =
            format!("`{name}` is a secret: it is dropped, and this release has no use for it");
        let shown = Diagnostic {
            // The line holds the secret.
            snippet: String::new(),
            ..source.diagnostic(&place.unwrap_or(0..0), message, None)
        };
        warnings.push(shown);
    }
}

fn parse_hcl(source: &Source, machine: &mut Machine<'_>) -> Result<(Job, Json), Diagnostics> {
    let mut problems = Diagnostics::default();
    let Syntax { body, damage } = syntax::parse(source, &mut problems);
    let Some(damage) = damage else {
        problems.sort();
        return Err(problems);
    };
    machine.broken.extend(damage.broken_names(source, &body));
    let block = job_block(
        &body,
        &damage,
        &mut Problems {
            source,
            list: &mut problems,
        },
    );

    let mut scope = Scope::root(Unknown::PassThrough);
    variables::define(&body, source, machine, &mut problems, &mut scope);
    locals::define(&body, source, machine, &mut problems, &mut scope);
    let decoded = block.and_then(|block| {
        let problems = Problems {
            source,
            list: &mut problems,
        };
        let mut decoder = Decoder {
            problems,
            machine,
            damage: &damage,
        };
        decoder.block(&schema::JOB, &BlockView::new(block), &scope)
    });
    if let (Some(json), Some(block), true) = (decoded, block, problems.is_empty()) {
        let span = span_of(&block.ident);
        if json::is_too_deep(&json) {
            problems.report(source, &span, json::TOO_DEEP, None);
            return Err(problems);
        }
        match Job::deserialize(&json) {
            Ok(job) => return Ok((job, json)),
            Err(error) => problems.report(source, &span, error.to_string(), None),
        }
    }
    problems.sort();
    Err(problems)
}

/// The one `job` block of a file.
fn job_block<'b>(
    body: &'b Body,
    damage: &Damage,
    problems: &mut Problems<'_>,
) -> Option<&'b Block> {
    let mut found: Option<&Block> = None;
    for structure in body {
        let (name, span) = match structure {
            Structure::Attribute(attribute) => (attribute.key.value(), span_of(&attribute.key)),
            Structure::Block(block) => (block.ident.value(), span_of(&block.ident)),
        };
        match (structure, name.as_str()) {
            (Structure::Block(block), "job") => {
                if found.is_some() {
                    problems.report(&span, "a file holds one job", None);
                }
                found.get_or_insert(block);
            }
            (Structure::Block(_), "variable" | "variables" | "locals") => {}
            (_, other) => {
                let message = format!("`{other}` does not belong here");
                let hint = "a job file holds `job`, `variable` and `locals` blocks".to_owned();
                problems.report(&span, message, Some(hint));
            }
        }
    }
    if found.is_none() && problems.list.is_empty() && damage.is_empty() {
        let hint = "it begins with `job \"NAME\" {`".to_owned();
        problems.report(&(0..0), "there is no `job` in this file", Some(hint));
    }
    found
}
