//! `/v1/job/:id/versions/:tag/tag`: names of job versions.

use axum::http::StatusCode;
use controlplane_state::command::{JobTag, TagChange};
use controlplane_state::{Command, Outcome, Refusal};
use protocol_api::jobs::TagRequest;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::job;
use crate::cluster::ChangeError;

pub(super) async fn tag(ask: &Ask) -> Answered {
    let request: TagRequest = ask.json_or_default()?;
    let change = TagChange::Apply {
        version: request.version,
        description: request.description,
    };
    apply(ask, change).await
}

pub(super) async fn untag(ask: &Ask) -> Answered {
    apply(ask, TagChange::Unset).await
}

async fn apply(ask: &Ask, change: TagChange) -> Answered {
    let command = Command::JobTag(JobTag {
        key: job::key(ask),
        name: ask.parameter("tag").to_owned(),
        change,
    });
    let changed = match ask.change(command).await {
        Err(ChangeError::Refused(Refusal::UnknownJobVersion { key, version })) => {
            let text = format!("job {:?} version {version} not found", key.id);
            return Err(HttpError::new(StatusCode::NOT_FOUND, text));
        }
        changed => changed?,
    };
    let Outcome::JobTagged(tag) = changed.outcome else {
        return Err(HttpError::internal(
            "the state answered a tag with something else",
        ));
    };
    ask.answer(&tag, changed.index)
}
