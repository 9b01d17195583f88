//! The claims of a workload identity, written and read.

use protocol_model::AllocId;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::OWN_AUDIENCE;

/// Seconds of leeway for clocks that differ.
const LEEWAY_SECONDS: u64 = 60;
/// The most audiences that are read.
const AUDIENCES_MAX: usize = 64;

/// The claims of a workload identity. Times are seconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct IdentityClaims {
    /// The namespace of the job.
    #[serde(rename = "nomad_namespace")]
    pub namespace: String,
    /// The job; of a dispatched or periodic child its parent.
    #[serde(rename = "nomad_job_id")]
    pub job_id: String,
    /// The allocation.
    #[serde(rename = "nomad_allocation_id")]
    pub alloc_id: AllocId,
    /// The task.
    #[serde(rename = "nomad_task")]
    pub task: String,
    /// `<region>:<namespace>:<job>:<group>:<task>:<identity>`.
    #[serde(rename = "sub")]
    pub subject: String,
    /// A text where there is one audience, else a list, as relying parties of Nomad expect.
    #[serde(rename = "aud", skip_serializing_if = "Vec::is_empty")]
    #[serde(serialize_with = "one_or_many")]
    pub audiences: Vec<String>,
    /// When it was issued; without a ttl the allocation's creation.
    #[serde(rename = "iat")]
    pub issued_at: u64,
    /// From when it is valid.
    #[serde(rename = "nbf")]
    pub not_before: u64,
    /// From when it is not valid any more; `None` = it ends with its allocation.
    #[serde(rename = "exp", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Its id.
    #[serde(rename = "jti")]
    pub id: Uuid,
    /// The issuer, where the servers have one configured.
    #[serde(rename = "iss", skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

/// Why the claims of a verified token are refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum ClaimsError {
    /// A claim is missing or has another type.
    #[error("the claim {0:?} is missing or has the wrong type")]
    Claim(&'static str),
    /// It is meant for others.
    #[error("the audience has no {OWN_AUDIENCE:?}")]
    Audience,
    /// It is too late.
    #[error("the token has expired")]
    Expired,
    /// It is too early.
    #[error("the token is not valid yet: compare the clocks")]
    TooEarly,
}

impl IdentityClaims {
    /// The claims of a token whose signature was verified.
    ///
    /// # Errors
    /// [`ClaimsError::Claim`].
    pub fn read(members: &Map<String, Value>) -> Result<Self, ClaimsError> {
        let text = |name: &'static str| {
            let value = members.get(name).and_then(Value::as_str);
            value.map(str::to_owned).ok_or(ClaimsError::Claim(name))
        };
        let seconds = |name: &'static str| match members.get(name) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or(ClaimsError::Claim(name)),
        };
        let needed = |name| seconds(name)?.ok_or(ClaimsError::Claim(name));
        let alloc_id = text("nomad_allocation_id")?;
        let jti = text("jti")?;
        Ok(Self {
            namespace: text("nomad_namespace")?,
            job_id: text("nomad_job_id")?,
            alloc_id: alloc_id
                .parse()
                .map_err(|_| ClaimsError::Claim("nomad_allocation_id"))?,
            task: text("nomad_task")?,
            subject: text("sub")?,
            audiences: audiences(members.get("aud"))?,
            issued_at: needed("iat")?,
            not_before: needed("nbf")?,
            expires_at: seconds("exp")?,
            id: Uuid::try_parse(&jti).map_err(|_| ClaimsError::Claim("jti"))?,
            issuer: match members.contains_key("iss") {
                true => Some(text("iss")?),
                false => None,
            },
        })
    }

    /// Whether the API takes it at `now_seconds`: audience and times, with a leeway of 60 s.
    ///
    /// # Errors
    /// The other variants of [`ClaimsError`].
    pub fn check(&self, now_seconds: u64) -> Result<(), ClaimsError> {
        if !self.audiences.iter().any(|one| one == OWN_AUDIENCE) {
            return Err(ClaimsError::Audience);
        }
        let end = self
            .expires_at
            .map(|end| end.saturating_add(LEEWAY_SECONDS));
        if end.is_some_and(|end| end <= now_seconds) {
            return Err(ClaimsError::Expired);
        }
        if now_seconds.saturating_add(LEEWAY_SECONDS) < self.not_before {
            return Err(ClaimsError::TooEarly);
        }
        Ok(())
    }

    /// The name of the identity block, which the subject ends with.
    pub fn identity(&self) -> &str {
        self.subject.rsplit(':').next().unwrap_or_default()
    }
}

fn audiences(value: Option<&Value>) -> Result<Vec<String>, ClaimsError> {
    let wrong = ClaimsError::Claim("aud");
    match value {
        None => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one.clone()]),
        Some(Value::Array(items)) if items.len() <= AUDIENCES_MAX => {
            let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().ok_or(wrong)
        }
        Some(_) => Err(wrong),
    }
}

fn one_or_many<S: serde::Serializer>(audiences: &[String], to: S) -> Result<S::Ok, S::Error> {
    match audiences {
        [one] => one.serialize(to),
        many => many.serialize(to),
    }
}
