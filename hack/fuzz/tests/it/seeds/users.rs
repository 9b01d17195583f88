//! What users and programs send: job files, jobs, requests.

use controlplane_server::http::requests::readers;
use hack_fuzz::{Verdict, template};
use hack_testkit::jobs;
use protocol_model::JobType;
use serde_json::{Value, json};

use super::{bytes_of, files};

/// Job files: those of the repository, and those that use every corner of the language.
pub(crate) fn job_files() -> Vec<Vec<u8>> {
    let mut seeds = bytes_of(files("hack/jobs", ""));
    seeds.extend(bytes_of(files("hack/fuzz/seeds", "job-file-")));
    seeds.extend(job_documents());
    seeds
}

/// Policies: the documents of protocol-access.
pub(crate) fn acl_policies() -> Vec<Vec<u8>> {
    bytes_of(files("protocol/access/tests/policies", ""))
}

/// Templates: the corpus of noded-template.
pub(crate) fn templates() -> Vec<Vec<u8>> {
    let files = files("noded/template/tests/corpus", "");
    // Without data those render that need none; the others are no seeds.
    let templates = files
        .into_iter()
        .filter(|(name, _)| name.ends_with(".tmpl"));
    let templates = templates.map(|(_, bytes)| bytes);
    templates
        .filter(|bytes| template(bytes) == Verdict::Understood)
        .collect()
}

/// Jobs in JSON: small ones, and one with every block.
pub(crate) fn job_documents() -> Vec<Vec<u8>> {
    let json = |job| serde_json::to_vec(&job).expect("a job has a form in JSON");
    let mut seeds = bytes_of(files("hack/fuzz/seeds", "job-document-"));
    seeds.push(json(jobs::draft(JobType::Batch, "draft", 1)));
    seeds.push(json(jobs::job(JobType::Service, "web", 3)));
    seeds.push(json(jobs::job(JobType::System, "everywhere", 0)));
    let in_other_case: Vec<_> = seeds.iter().map(|seed| other_case(seed)).collect();
    seeds.extend(in_other_case);
    seeds
}

/// The same document with every other key in lower case, and a decoy of the next one before it.
fn other_case(document: &[u8]) -> Vec<u8> {
    fn spelled(value: &Value) -> Value {
        match value {
            Value::Array(all) => all.iter().map(spelled).collect(),
            Value::Object(members) => {
                let members = members
                    .iter()
                    .enumerate()
                    .flat_map(|(position, (key, value))| {
                        let lower = key.to_ascii_lowercase();
                        match position % 2 {
                            0 => vec![(lower, spelled(value))],
                            _ => vec![(lower, Value::Null), (key.clone(), spelled(value))],
                        }
                    });
                Value::Object(members.collect())
            }
            other => other.clone(),
        }
    }
    let value: Value = serde_json::from_slice(document).expect("a seed is JSON");
    spelled(&value).to_string().into_bytes()
}

/// Something that each reader of the HTTP API understands, behind the reader's position.
pub(crate) fn requests() -> Vec<Vec<u8>> {
    let bodies = |name: &str| -> Vec<Vec<u8>> {
        let texts = match name {
            "job" | "JobRequest" => job_documents()
                .iter()
                .filter_map(|job| request_of(job))
                .collect(),
            "parse" | "ParseRequest" => bytes_of(files("hack/jobs", ""))
                .into_iter()
                .map(|file| json!({ "JobHCL": String::from_utf8_lossy(&file), "Variables": "" }))
                .map(|body| body.to_string())
                .collect(),
            "SearchRequest" => vec![json!({ "Prefix": "a", "Context": "jobs" }).to_string()],
            "EvaluateRequest" => vec![
                json!({ "JobID": "a", "EvalOptions": { "ForceReschedule": true } }).to_string(),
                "null".to_owned(),
            ],
            "EligibilityRequest" => {
                vec![json!({ "NodeID": "a", "Eligibility": "eligible" }).to_string()]
            }
            "NamespaceRequest" => {
                vec![json!({ "Name": "a", "Description": "b", "Meta": { "k": "v" } }).to_string()]
            }
            "SchedulerConfiguration" => vec![
                json!({ "SchedulerAlgorithm": "spread", "PauseEvalBroker": false,
                    "PreemptionConfig": { "ServiceSchedulerEnabled": true } })
                .to_string(),
            ],
            "RestartRequest" => vec![json!({ "TaskName": "t", "AllTasks": false }).to_string()],
            "SignalRequest" => vec![json!({ "Task": "t", "Signal": "SIGHUP" }).to_string()],
            "handshake" => vec![json!({ "version": 1, "auth_token": "secret" }).to_string()],
            "exec-input" => vec![
                json!({ "stdin": { "data": "aGFsbG8K" } }).to_string(),
                json!({ "stdin": { "close": true } }).to_string(),
                json!({ "tty_size": { "height": 40, "width": 80 } }).to_string(),
                "{}".to_owned(),
            ],
            "path" => vec!["/v1/job/a%2Fb%20c/plan".to_owned(), "/".to_owned()],
            "query" => vec![
                "index=7&wait=5s&stale&per_page=3&meta=true".to_owned(),
                "filter=Name+%3D%3D+%22a%22+and+not+%28Meta+is+empty+or+%22x%22+in+Tags%29"
                    .to_owned(),
                "filter=Name+matches+%22%5Ea%22+or+Meta.k+contains+%60v%60".to_owned(),
                "task=t&tty=true&command=%5B%22/bin/sh%22%2C%22-c%22%5D".to_owned(),
            ],
            "BootstrapRequest" => vec![
                json!({ "BootstrapSecret": "2b778dd9-f5f1-6f29-b4b4-9a5fa948757a" }).to_string(),
                "{}".to_owned(),
            ],
            // Bodies of which nothing more is known than that they are objects.
            _ => vec!["{}".to_owned()],
        };
        texts.into_iter().map(String::into_bytes).collect()
    };
    let with_position = |(position, name): (usize, &str)| {
        let position = u8::try_from(position).expect("there are few readers");
        let bodies = bodies(name).into_iter();
        bodies
            .flat_map(|body| match serde_json::from_slice::<Value>(&body) {
                Ok(Value::Object(_)) => vec![other_case(&body), body],
                _ => vec![body],
            })
            .map(|body| [&[position], body.as_slice()].concat())
            .collect::<Vec<_>>()
    };
    readers()
        .into_keys()
        .enumerate()
        .flat_map(with_position)
        .collect()
}

/// A registration of a job; `None` for one that no server would take.
fn request_of(document: &[u8]) -> Option<String> {
    let job: protocol_model::Job = protocol_model::json::from_slice(document).ok()?;
    let mut canonical = job.clone();
    canonical.canonicalize();
    canonical.validate().ok()?;
    Some(json!({ "Job": job, "EnforceIndex": true, "JobModifyIndex": 7 }).to_string())
}
