//! `/v1/operator/keyring`: root keys are listed, rotated and removed.

use axum::http::StatusCode;
use controlplane_state::command::{
    IDENTITY_LEVEL, KeyRemoval, RootKeyChange, RootKeyUpsert, Rotation,
};
use controlplane_state::{AccessRefusal, Refusal, RootKey, Table};
use protocol_api::keyring::{
    ListRootKeys, RemoveRootKey, RootKeyMeta, RotateRootKey, RotatedRootKey,
};
use protocol_model::UnixNanos;
use tokio::time::Instant;
use uuid::Uuid;

use super::acl::written::APPLIED_WITHIN;
use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::route::{Routes, routes};
use crate::cluster::{ChangeError, Changed};
use crate::keyring::{MakeError, new_root_key};

/// The cipher of sealed values, in Nomad's words.
const ALGORITHM: &str = "aes256-gcm";
/// How often a rotation is tried: another one may come first.
const ROTATIONS_MAX: usize = 3;

pub(super) const ROUTES: Routes = routes![
    ListRootKeys => list,
    RotateRootKey => rotate,
    RemoveRootKey => remove,
];

fn meta(key: &RootKey) -> RootKeyMeta {
    RootKeyMeta {
        algorithm: ALGORITHM.to_owned(),
        create_index: key.create_index,
        create_time: key.create_time,
        key_id: key.id.to_string(),
        modify_index: key.modify_index,
        publish_time: key.publish_time,
        state: key.state.as_str().to_owned(),
    }
}

async fn list(ask: &Ask) -> Answered {
    ask.read(&[Table::RootKeys], |snapshot| {
        let keys = snapshot.root_keys().map(|key| meta(key));
        Ok(keys.collect::<Vec<_>>())
    })
    .await
}

/// Makes a key here, wherever the leader is: the log decides whether it takes the active one's
/// place.
async fn rotate(ask: &Ask) -> Answered {
    let publish_time = ask.query.number("publish_time")?.unwrap_or(0);
    let publish_time = (publish_time != 0).then_some(UnixNanos(publish_time));
    let rotation = match ask.query.flag("full")? {
        true if publish_time.is_some() => {
            return Err(HttpError::bad_request(
                "keyring cannot be prepublished and full rotated at the same time",
            ));
        }
        true => Rotation::Full,
        false => Rotation::Plain,
    };
    if let Some(old) = ask.api.cluster.too_old(IDENTITY_LEVEL) {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Err(HttpError::new(status, old.to_string()));
    }
    let (id, changed) = add(ask, publish_time, rotation).await?;
    let deadline = Instant::now() + APPLIED_WITHIN;
    let snapshot = ask.api.cluster.at_least(changed.index, deadline).await?;
    let key = snapshot.root_key_by_id(id).ok_or_else(|| {
        HttpError::internal("the root key was added, and another request has removed it since")
    })?;
    let index = changed.index;
    let key = meta(key);
    ask.answer(&RotatedRootKey { index, key }, index)
}

async fn add(
    ask: &Ask,
    publish_time: Option<UnixNanos>,
    rotation: Rotation,
) -> Result<(Uuid, Changed), HttpError> {
    let mut tried = 0;
    loop {
        let snapshot = ask.consistent().await?;
        let key = new_root_key(&ask.api.keks, publish_time).await;
        let key = key.map_err(|error| not_made(&error))?;
        let id = key.id;
        let upsert = RootKeyUpsert {
            key,
            replaces: snapshot.active_root_key().map(|key| key.number),
            rotation,
        };
        tried += 1;
        let moved = |refusal: &Refusal| {
            matches!(refusal, Refusal::Access(AccessRefusal::RootKeyMoved { .. }))
        };
        match Box::pin(ask.change(upsert.into())).await {
            Ok(changed) => return Ok((id, changed)),
            Err(ChangeError::Refused(refusal)) if moved(&refusal) && tried < ROTATIONS_MAX => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn not_made(error: &MakeError) -> HttpError {
    let status = match error {
        MakeError::Keyring(_) => StatusCode::SERVICE_UNAVAILABLE,
        MakeError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    HttpError::new(status, error.to_string())
}

/// Removes a key by its use, which `apply` judges. The leader moves the allocations of a key that
/// was removed by force.
async fn remove(ask: &Ask) -> Answered {
    let text = ask.parameter("id");
    let id = Uuid::try_parse(text);
    let id = id.map_err(|_| HttpError::bad_request(format!("{text:?} is no id of a root key")))?;
    let rule = match ask.query.flag("force")? {
        true => KeyRemoval::Forced,
        false => KeyRemoval::Unused,
    };
    let snapshot = ask.consistent().await?;
    let key = snapshot.root_key_by_id(id);
    let key = key.ok_or_else(|| HttpError::not_found("root key not found"))?;
    let number = key.number;
    let change = RootKeyChange::Remove { number, rule };
    let changed = ask.change(change.into()).await?;
    ask.done(changed.index)
}
