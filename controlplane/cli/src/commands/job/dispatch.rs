//! `drover job dispatch`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use protocol_api::jobs::{DispatchJob, DispatchRequest};
use protocol_model::DISPATCH_PAYLOAD_BYTES_MAX;

use crate::failure::{Exit, Failure};
use crate::find::{self, Length, shown};
use crate::monitor::Monitor;
use crate::render::columns::pairs;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Dispatch {
    /// The parameterized job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// The payload: a file, or - for standard input
    #[arg(value_name = "INPUT")]
    input: Option<PathBuf>,
    /// Metadata of the dispatched job, as KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    /// Return once the job is dispatched; prints the evaluation's id
    #[arg(long)]
    detach: bool,
    /// A part of the dispatched job's id, before its time
    #[arg(long, value_name = "PREFIX")]
    id_prefix_template: Option<String>,
    /// A dispatch with the token of an earlier one starts nothing and prints the job of that one
    #[arg(long, value_name = "TOKEN")]
    idempotency_token: Option<String>,
    /// The dispatched job's priority, 1 to 100; that of the parameterized job where not given
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(i32).range(1..=100))]
    priority: Option<i32>,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

impl Dispatch {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let payload = self.payload()?;
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let request = DispatchRequest {
            job_id: name.id.clone(),
            payload: STANDARD.encode(payload),
            meta: self.meta.iter().cloned().collect::<BTreeMap<_, _>>(),
            id_prefix_template: self.id_prefix_template.clone().unwrap_or_default(),
            priority: self.priority.unwrap_or(0),
        };
        let query = name
            .query()
            .with_some("idempotency_token", self.idempotency_token.as_deref());
        let dispatch = DispatchJob { id: &name.id };
        let answer = client.call_with(&dispatch, &query, &request).await?.value;
        let length = Length::new(self.verbose);
        let mut lines = vec![("Dispatched Job ID", answer.dispatched_job_id.clone())];
        let eval = answer.eval_id.as_str();
        if !eval.is_empty() {
            lines.push(("Evaluation ID", shown(eval, length)));
        }
        session.out.data(pairs(&lines).trim_end())?;
        if self.detach || eval.is_empty() {
            return Ok(Exit::SUCCESS);
        }
        Monitor::new(session, &client, length).watch(eval).await
    }

    /// Reads little more than the server takes: a larger payload is refused by its size here.
    fn payload(&self) -> Result<Vec<u8>, Failure> {
        let Some(path) = &self.input else {
            return Ok(Vec::new());
        };
        let mut payload = Vec::new();
        let limit = DISPATCH_PAYLOAD_BYTES_MAX as u64 + 1;
        let host = |what| move |source| Failure::Host { what, source };
        if path.as_os_str() == "-" {
            let stdin = std::io::stdin().lock();
            stdin
                .take(limit)
                .read_to_end(&mut payload)
                .map_err(host("reading the payload from standard input"))?;
        } else {
            std::fs::File::open(path)
                .and_then(|file| file.take(limit).read_to_end(&mut payload))
                .map_err(|source| Failure::ReadFile {
                    path: path.clone(),
                    source,
                })?;
        }
        if payload.len() > DISPATCH_PAYLOAD_BYTES_MAX {
            return Err(Failure::usage(format!(
                "the payload is larger than {DISPATCH_PAYLOAD_BYTES_MAX} bytes"
            )));
        }
        Ok(payload)
    }
}
