//! What requests are read with, as functions of bytes: everything that a caller sends is read by
//! one of these, and all of them can be fed rubbish without a server (`hack/fuzz`).

use std::collections::BTreeMap;

use protocol_api::Body;
use protocol_api::jobs::{JobRequest, ParseRequest};
use protocol_jobspec::{NoFiles, VariableFile, Variables};
use protocol_model::json;

use super::entry::segments;
use super::error::HttpError;
use super::exec::{self, Handshake};
use super::filter::Filter;
use super::query::Query;

/// Reads bytes as a server does; what it refuses them with is the error.
pub type Reader = fn(&[u8]) -> Result<(), String>;

/// Every reader by the part of the API that it reads for: those of the bodies that `protocol-api`
/// declares, by the names of their types, then those of everything else.
pub fn readers() -> BTreeMap<&'static str, Reader> {
    let bodies = protocol_api::endpoints().filter_map(|endpoint| match endpoint.body {
        Body::Json { name, read, .. } => Some((name, read as Reader)),
        Body::None | Body::Bytes { .. } | Body::Stream => None,
    });
    let others: [(&'static str, Reader); 6] = [
        ("job", job),
        ("parse", parse),
        ("handshake", handshake),
        ("exec-input", exec_input),
        ("path", path),
        ("query", query),
    ];
    bodies.chain(others).collect()
}

fn handshake(bytes: &[u8]) -> Result<(), String> {
    json::from_slice::<Handshake>(bytes)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// What is said of the job in a registration, a plan or a validation.
fn job(bytes: &[u8]) -> Result<(), String> {
    let request: JobRequest = json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut job = request.job.ok_or("no job")?;
    job.canonicalize();
    drop(job.unhonoured());
    job.validate().map_err(|errors| errors.to_string())
}

/// The job file and the variables in the body of a parse.
fn parse(bytes: &[u8]) -> Result<(), String> {
    let request: ParseRequest = json::from_slice(bytes).map_err(|error| error.to_string())?;
    let file = VariableFile {
        name: "variables".to_owned(),
        text: request.variables,
    };
    let mut inputs = NoFiles {
        variables: Variables {
            files: vec![file],
            ..Variables::default()
        },
        now: jiff::Timestamp::UNIX_EPOCH,
        seed: 0,
    };
    protocol_jobspec::parse("job.hcl", &request.job_hcl, &mut inputs)
        .map(drop)
        .map_err(|problems| problems.to_string())
}

fn exec_input(bytes: &[u8]) -> Result<(), String> {
    refused(exec::inputs(bytes))
}

fn path(bytes: &[u8]) -> Result<(), String> {
    refused(segments(&String::from_utf8_lossy(bytes)))
}

/// The parameters of a list, and of an `exec`.
fn query(bytes: &[u8]) -> Result<(), String> {
    let query = Query::parse(&String::from_utf8_lossy(bytes)).map_err(|error| error.message)?;
    for number in ["index", "per_page"] {
        query.number::<u64>(number).map_err(|error| error.message)?;
    }
    query.duration("wait").map_err(|error| error.message)?;
    query.flag("meta").map_err(|error| error.message)?;
    if query.text("task").is_some() {
        refused(exec::request(&query))?;
    }
    let item = serde_json::json!({ "Name": "a", "Count": 1, "Meta": { "k": "v" }, "Tags": ["x"], "Stop": false });
    match Filter::of(&query) {
        Ok(Some(filter)) => refused(filter.keeps(&item)),
        other => refused(other),
    }
}

fn refused<T>(answer: Result<T, HttpError>) -> Result<(), String> {
    answer.map(drop).map_err(|error| error.message)
}
