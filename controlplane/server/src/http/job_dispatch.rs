//! `/v1/job/:id/dispatch`: launches a child of a parameterized job.
//!
//! The child is built here from a snapshot. `apply` refuses it where the template changed since,
//! and it is built anew. A dispatch that is repeated with its idempotency token answers the first
//! child.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controlplane_state::command::ChildJob;
use controlplane_state::{Command, Launched, Outcome, Refusal, Table};
use protocol_api::jobs::{DispatchRequest, Dispatched};
use protocol_model::{
    DISPATCH_PAYLOAD_BYTES_MAX, EvalTrigger, Job, JobStatus, ParameterizedJobConfig, PayloadRule,
    UnixNanos,
};
use uuid::Uuid;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::job;
use super::job_register::{BUILDS_MAX, changes_too_often, check_registration_allowed, evaluation};
use crate::cluster::ChangeError;

/// The longest idempotency token, in bytes.
const TOKEN_BYTES_MAX: usize = 256;

/// The dispatch that a caller asks for.
#[derive(Debug, Default)]
struct Wanted {
    payload: Vec<u8>,
    meta: BTreeMap<String, String>,
    id_prefix: String,
    /// 0 = the template's.
    priority: i32,
    token: String,
}

/// The body describes the dispatch.
pub(super) async fn dispatch(ask: &Ask) -> Answered {
    let request: DispatchRequest = ask.json_or_default()?;
    if !request.job_id.is_empty() && request.job_id != ask.parameter("id") {
        return Err(HttpError::bad_request("Job ID does not match"));
    }
    let payload = STANDARD.decode(&request.payload).map_err(|error| {
        HttpError::bad_request(format!("cannot decode the body: Payload: {error}"))
    })?;
    let wanted = Wanted {
        payload,
        meta: request.meta,
        id_prefix: request.id_prefix_template,
        priority: request.priority,
        token: token(ask)?,
    };
    launch(ask, &wanted).await
}

/// The body is the payload.
pub(super) async fn dispatch_payload(ask: &Ask) -> Answered {
    let wanted = Wanted {
        payload: ask.body.to_vec(),
        token: token(ask)?,
        ..Wanted::default()
    };
    launch(ask, &wanted).await
}

fn token(ask: &Ask) -> Result<String, HttpError> {
    let token = ask.query.text("idempotency_token").unwrap_or("");
    if token.len() > TOKEN_BYTES_MAX {
        return Err(HttpError::bad_request(format!(
            "the idempotency token has {} bytes: at most {TOKEN_BYTES_MAX} are taken",
            token.len()
        )));
    }
    Ok(token.to_owned())
}

async fn launch(ask: &Ask, wanted: &Wanted) -> Answered {
    check_registration_allowed(ask)?;
    let key = job::key(ask);
    for _ in 0..BUILDS_MAX {
        let snapshot = ask.consistent().await?;
        let template = snapshot.job(&key).ok_or_else(unknown)?;
        let Some(takes) = template
            .parameterized_job
            .as_ref()
            .filter(|_| template.is_parameterized())
        else {
            return Err(Refusal::NotParameterized(key).into());
        };
        if let Some(child) = snapshot.dispatched_with(&key, &wanted.token) {
            let launched = Launched {
                child: child.key(),
                create_index: child.create_index,
                eval: None,
            };
            return answer(ask, launched, snapshot.table_index(&[Table::Jobs]));
        }
        if template.stop {
            return Err(Refusal::TemplateStopped(key).into());
        }
        check(takes, wanted).map_err(HttpError::bad_request)?;
        let child = child(template, wanted, ask.now(), Uuid::new_v4())?;
        let command = Command::JobDispatch(ChildJob {
            spec: child.spec_hash(),
            parent_index: template.job_modify_index,
            eval: (!child.is_periodic())
                .then(|| evaluation(&child, 0, EvalTrigger::JobRegister, ask.now())),
            job: Arc::new(child),
        });
        match ask.change(command).await {
            Err(ChangeError::Refused(
                Refusal::TemplateChanged { .. } | Refusal::ChildExists(_),
            )) => {}
            Err(ChangeError::Refused(Refusal::UnknownJob(_))) => return Err(unknown()),
            changed => {
                let changed = changed?;
                let Outcome::JobDispatched(launched) = changed.outcome else {
                    return Err(HttpError::internal(
                        "the state answered a dispatch with something else",
                    ));
                };
                return answer(ask, launched, changed.index);
            }
        }
    }
    Err(changes_too_often(&key))
}

fn unknown() -> HttpError {
    HttpError::not_found("parameterized job not found")
}

fn answer(ask: &Ask, launched: Launched, index: u64) -> Answered {
    let answer = Dispatched {
        dispatched_job_id: launched.child.id,
        eval_create_index: if launched.eval.is_some() { index } else { 0 },
        eval_id: launched.eval.map(|id| id.to_string()).unwrap_or_default(),
        job_create_index: launched.create_index,
        index,
    };
    ask.answer(&answer, index)
}

/// Whether the template takes such a dispatch. The texts are Nomad's.
fn check(takes: &ParameterizedJobConfig, wanted: &Wanted) -> Result<(), String> {
    let rule = takes.payload().map_err(|error| error.to_string())?;
    let bytes = wanted.payload.len();
    match rule {
        PayloadRule::Required if bytes == 0 => {
            return Err("Payload is not provided but required by parameterized job".to_owned());
        }
        PayloadRule::Forbidden if bytes > 0 => {
            return Err("Payload provided but forbidden by parameterized job".to_owned());
        }
        PayloadRule::Optional | PayloadRule::Required | PayloadRule::Forbidden => {}
    }
    if bytes > DISPATCH_PAYLOAD_BYTES_MAX {
        return Err(format!(
            "Payload exceeds maximum size; {bytes} > {DISPATCH_PAYLOAD_BYTES_MAX}"
        ));
    }
    let given: BTreeSet<&str> = wanted.meta.keys().map(String::as_str).collect();
    let required: BTreeSet<&str> = takes.meta_required.iter().map(String::as_str).collect();
    let optional = takes.meta_optional.iter().map(String::as_str);
    let permitted: BTreeSet<&str> = optional.chain(required.iter().copied()).collect();
    let list = |keys: Vec<&str>| keys.join(" ");
    let unpermitted: Vec<&str> = given.difference(&permitted).copied().collect();
    if !unpermitted.is_empty() {
        return Err(format!(
            "Dispatch request included unpermitted metadata keys: [{}]",
            list(unpermitted)
        ));
    }
    let missing: Vec<&str> = required.difference(&given).copied().collect();
    if !missing.is_empty() {
        return Err(format!(
            "Dispatch did not provide required meta keys: [{}]",
            list(missing)
        ));
    }
    if !(0..=100).contains(&wanted.priority) {
        return Err("dispatch job priority must be between [1, 100]".to_owned());
    }
    Ok(())
}

/// The child of `template`, as it is at `now`. `random` makes its id unique within a second.
fn child(template: &Job, wanted: &Wanted, now: UnixNanos, random: Uuid) -> Result<Job, HttpError> {
    let mut job = template.clone();
    let unix = now.0.div_euclid(1_000_000_000);
    let unique = &random.simple().to_string()[..8];
    let separator = if wanted.id_prefix.is_empty() { "" } else { "-" };
    job.id = format!(
        "{}/dispatch-{}{separator}{unix}-{unique}",
        template.id, wanted.id_prefix
    );
    job.name.clone_from(&job.id);
    job.parent_id.clone_from(&template.id);
    job.dispatched = true;
    job.dispatch_idempotency_token.clone_from(&wanted.token);
    job.payload = Some(compressed(&wanted.payload)?);
    job.meta.extend(wanted.meta.clone());
    if wanted.priority != 0 {
        job.priority = wanted.priority;
    }
    job.status = JobStatus::Pending;
    job.status_description.clear();
    job.version_tag = None;
    // Its scaling policies name the child from now on.
    job.canonicalize();
    job.validate()
        .map_err(|errors| HttpError::bad_request(errors.to_string()))?;
    Ok(job)
}

/// Base64 of Snappy's block format, also of nothing, as Nomad's clients read it.
fn compressed(payload: &[u8]) -> Result<String, HttpError> {
    let compressed = snap::raw::Encoder::new()
        .compress_vec(payload)
        .map_err(|error| HttpError::internal(format!("cannot compress the payload: {error}")))?;
    Ok(STANDARD.encode(compressed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(payload: &[u8], meta: &[&str], priority: i32) -> Wanted {
        Wanted {
            payload: payload.to_vec(),
            meta: meta
                .iter()
                .map(|key| (key.to_string(), "v".to_owned()))
                .collect(),
            priority,
            ..Wanted::default()
        }
    }

    #[test]
    fn a_dispatch_is_checked_by_the_rules_of_its_template() {
        let takes = |payload: &str| ParameterizedJobConfig {
            payload: payload.to_owned(),
            meta_required: vec!["b".to_owned(), "a".to_owned()],
            meta_optional: vec!["c".to_owned()],
        };
        let both = ["a", "b"];
        let large = vec![0; 20_000];
        let exact = vec![0; DISPATCH_PAYLOAD_BYTES_MAX];
        let cases = [
            (
                "required",
                wanted(b"", &both, 0),
                "Payload is not provided but required by parameterized job",
            ),
            (
                "forbidden",
                wanted(b"x", &both, 0),
                "Payload provided but forbidden by parameterized job",
            ),
            (
                "optional",
                wanted(&large, &both, 0),
                "Payload exceeds maximum size; 20000 > 16384",
            ),
            ("", wanted(&exact, &both, 0), ""),
            (
                "",
                wanted(b"", &["z", "a", "y", "b"], 0),
                "Dispatch request included unpermitted metadata keys: [y z]",
            ),
            (
                "",
                wanted(b"", &["c"], 0),
                "Dispatch did not provide required meta keys: [a b]",
            ),
            ("", wanted(b"", &["a", "b", "c"], 100), ""),
            (
                "",
                wanted(b"", &both, 101),
                "dispatch job priority must be between [1, 100]",
            ),
            (
                "",
                wanted(b"", &both, -1),
                "dispatch job priority must be between [1, 100]",
            ),
        ];
        for (payload, wanted, text) in cases {
            let found = check(&takes(payload), &wanted).err().unwrap_or_default();
            assert_eq!(found, text, "{payload:?} {:?}", wanted.meta);
        }
    }

    #[test]
    fn a_payload_is_written_as_nomad_writes_it() {
        // Go's snappy.Encode.
        assert_eq!(compressed(b"hi\n").as_deref(), Ok("AwhoaQo="));
        assert_eq!(compressed(b"").as_deref(), Ok("AA=="));
    }
}
