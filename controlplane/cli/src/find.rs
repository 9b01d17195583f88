//! Finding one object by the beginning of its id, as users give it.

use protocol_client::{Client, Query};
use serde::Deserialize;

use crate::failure::Failure;

/// How many matches are shown when there are several.
const MATCHES_MAX: usize = 20;
/// Length of a whole id.
const ID_LENGTH: usize = 36;

/// A kind of object with an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Allocation,
    Evaluation,
    Deployment,
    Node,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::Evaluation => "evaluation",
            Self::Deployment => "deployment",
            Self::Node => "node",
        }
    }

    fn list(self) -> &'static str {
        match self {
            Self::Allocation => "/v1/allocations",
            Self::Evaluation => "/v1/evaluations",
            Self::Deployment => "/v1/deployments",
            Self::Node => "/v1/nodes",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Found {
    #[serde(rename = "ID")]
    id: String,
    #[serde(default)]
    name: String,
}

/// The whole id of the one object whose id begins with `text`.
///
/// # Errors
/// If there is none, or several.
pub(crate) async fn id(client: &Client, kind: Kind, text: &str) -> Result<String, Failure> {
    let hexadecimal = |c: char| c.is_ascii_hexdigit() || c == '-';
    if text.len() < 2 || text.len() > ID_LENGTH || !text.chars().all(hexadecimal) {
        return Err(Failure::NotAnId {
            id: text.to_owned(),
        });
    }
    let text = text.to_ascii_lowercase();
    if text.len() == ID_LENGTH {
        return Ok(text);
    }
    // One digit of a pair is asked for without it, and compared here.
    let digits = text.chars().filter(|c| *c != '-').count();
    let asked = if digits % 2 == 0 {
        text.as_str()
    } else {
        &text[..text.len() - 1]
    };
    let query = Query::new().with("prefix", asked.trim_end_matches('-'));
    let mut found: Vec<Found> = client.get(kind.list(), &query).await?.value;
    found.retain(|object| object.id.starts_with(&text));
    match found.as_slice() {
        [] => Err(Failure::NotFound {
            what: kind.word(),
            id: text,
        }),
        [one] => Ok(one.id.clone()),
        many => Err(Failure::Ambiguous {
            what: kind.word(),
            id: text,
            matches: many
                .iter()
                .take(MATCHES_MAX)
                .map(|object| {
                    format!("{}  {}", object.id, object.name)
                        .trim_end()
                        .to_owned()
                })
                .collect(),
        }),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FoundJob {
    #[serde(rename = "ID")]
    id: String,
    namespace: String,
}

/// A job's id and namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JobName {
    pub(crate) id: String,
    pub(crate) namespace: String,
}

impl JobName {
    /// The path of the job, with what follows it.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/job/{}{rest}", Client::segment(&self.id))
    }

    /// The query that asks in the job's namespace.
    pub(crate) fn query(&self) -> Query {
        crate::session::in_namespace(&self.namespace)
    }
}

/// The job of this id, or the only one whose id begins so.
///
/// # Errors
/// If there is none, or several.
pub(crate) async fn job(client: &Client, text: &str) -> Result<JobName, Failure> {
    let query = Query::new().with("prefix", text);
    let found: Vec<FoundJob> = client.get("/v1/jobs", &query).await?.value;
    let mut exact: Vec<&FoundJob> = found.iter().filter(|job| job.id == text).collect();
    if exact.is_empty() {
        exact = found.iter().collect();
    }
    match exact.as_slice() {
        [] => Err(Failure::NotFound {
            what: "job",
            id: text.to_owned(),
        }),
        [one] => Ok(JobName {
            id: one.id.clone(),
            namespace: one.namespace.clone(),
        }),
        many => Err(Failure::Ambiguous {
            what: "job",
            id: text.to_owned(),
            matches: many
                .iter()
                .take(MATCHES_MAX)
                .map(|job| format!("{}  (namespace {})", job.id, job.namespace))
                .collect(),
        }),
    }
}

/// The first characters of an id, or all of it.
pub(crate) fn shown(id: &str, length: Length) -> String {
    match length {
        Length::Short => id.chars().take(8).collect(),
        Length::Whole => id.to_owned(),
    }
}

/// How much of an id is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Length {
    /// The first eight characters.
    Short,
    /// All of it.
    Whole,
}

impl Length {
    /// Whole where `-verbose` asks for it.
    pub(crate) fn new(verbose: bool) -> Self {
        if verbose { Self::Whole } else { Self::Short }
    }
}
