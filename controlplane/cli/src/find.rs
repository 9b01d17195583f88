//! Finding one object by the beginning of its id, as users give it.

use protocol_api::allocations::ListAllocations;
use protocol_api::deployments::ListDeployments;
use protocol_api::evaluations::ListEvaluations;
use protocol_api::jobs::{JobListStub, ListJobs};
use protocol_api::keyring::ListRootKeys;
use protocol_api::nodes::ListNodes;
use protocol_client::{Client, Query};

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
    RootKey,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::Evaluation => "evaluation",
            Self::Deployment => "deployment",
            Self::Node => "node",
            Self::RootKey => "root key",
        }
    }

    /// The ids that begin with `prefix`, each with the object's name, if its kind has names.
    async fn search(self, client: &Client, prefix: &str) -> Result<Vec<(String, String)>, Failure> {
        let query = &Query::new().with("prefix", prefix);
        let unnamed = |id: String| (id, String::new());
        Ok(match self {
            Self::Allocation => {
                let all = client.call(&ListAllocations, query).await?.value;
                all.into_iter()
                    .map(|it| (it.id.to_string(), it.name))
                    .collect()
            }
            Self::Evaluation => {
                let all = client.call(&ListEvaluations, query).await?.value;
                all.into_iter()
                    .map(|it| unnamed(it.id.to_string()))
                    .collect()
            }
            Self::Deployment => {
                let all = client.call(&ListDeployments, query).await?.value;
                all.into_iter()
                    .map(|it| unnamed(it.id.to_string()))
                    .collect()
            }
            Self::RootKey => {
                let all = client.call(&ListRootKeys, &Query::new()).await?.value;
                all.into_iter().map(|it| (it.key_id, it.state)).collect()
            }
            Self::Node => {
                let all = client.call(&ListNodes, query).await?.value;
                all.into_iter()
                    .map(|it| (it.id.to_string(), it.name))
                    .collect()
            }
        })
    }
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
    let mut found = kind.search(client, asked.trim_end_matches('-')).await?;
    found.retain(|(id, _)| id.starts_with(&text));
    match found.as_slice() {
        [] => Err(Failure::NotFound {
            what: kind.word(),
            id: text,
        }),
        [(id, _)] => Ok(id.clone()),
        many => Err(Failure::Ambiguous {
            what: kind.word(),
            id: text,
            matches: many
                .iter()
                .take(MATCHES_MAX)
                .map(|(id, name)| format!("{id}  {name}").trim_end().to_owned())
                .collect(),
        }),
    }
}

/// A job's id and namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JobName {
    pub(crate) id: String,
    pub(crate) namespace: String,
}

impl JobName {
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
    one_job(client, text, "job", |_| true).await
}

/// The periodic job of this id, or the only one whose id begins so. Launched jobs, whose ids begin
/// with their parent's, do not count.
///
/// # Errors
/// If there is none, or several.
pub(crate) async fn periodic_job(client: &Client, text: &str) -> Result<JobName, Failure> {
    one_job(client, text, "periodic job", |job| job.periodic).await
}

async fn one_job(
    client: &Client,
    text: &str,
    what: &'static str,
    wanted: fn(&JobListStub) -> bool,
) -> Result<JobName, Failure> {
    let query = Query::new().with("prefix", text);
    let mut found = client.call(&ListJobs, &query).await?.value;
    // A whole name goes to the server, which says what the job is.
    found.retain(|job| job.id == text || wanted(job));
    let mut exact: Vec<&JobListStub> = found.iter().filter(|job| job.id == text).collect();
    if exact.is_empty() {
        exact = found.iter().collect();
    }
    match exact.as_slice() {
        [] => Err(Failure::NotFound {
            what,
            id: text.to_owned(),
        }),
        [one] => Ok(JobName {
            id: one.id.clone(),
            namespace: one.namespace.clone(),
        }),
        many => Err(Failure::Ambiguous {
            what,
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
