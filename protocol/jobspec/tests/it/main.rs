//! What a job file means, and what is said of a wrong one.

mod corpus;
mod edges;
mod errors;
mod expression_errors;
mod file_functions;
mod functions;
mod heredocs;
mod hostile;
mod json_jobs;
mod language;
mod namespaces;
mod open_ends;
mod places;
mod pools;
mod scaling;
mod structure;
mod syntax;
mod variables;
mod yaml;

use protocol_jobspec::{Diagnostics, NoFiles, Parsed, Variables, parse};
use serde_json::Value as Json;

/// Fixed inputs without files: 2026-01-02T03:04:05Z, seed 7.
pub(crate) fn inputs() -> NoFiles {
    NoFiles {
        variables: Variables::default(),
        now: "2026-01-02T03:04:05Z".parse().expect("a valid time"),
        seed: 7,
    }
}

pub(crate) fn read(text: &str) -> Result<Parsed, Diagnostics> {
    parse("test.nomad", text, &mut inputs())
}

/// The job of a good file as API JSON.
pub(crate) fn job(text: &str) -> Json {
    match read(text) {
        Ok(parsed) => serde_json::to_value(parsed.job).expect("a job is JSON"),
        Err(problems) => panic!("{problems}"),
    }
}

/// The messages of a bad file as a user sees them.
pub(crate) fn complaints(text: &str) -> String {
    match read(text) {
        Ok(_) => panic!("the file was accepted"),
        Err(problems) => problems.to_string(),
    }
}
