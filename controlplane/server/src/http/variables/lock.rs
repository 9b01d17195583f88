//! `PUT /v1/var/:path?lock-acquire`, `?lock-renew` and `?lock-release`.

use controlplane_state::VariableKey;
use controlplane_state::command::{AcquiredItems, VariableApply, VariableChange};
use protocol_api::variables::{VariableItems, VariableRequest};

use super::items::SealedAgain;
use super::shown::{self, LockId};
use super::write::{Written, refused, result};
use super::{items, request};
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};

/// Acquires the lock. Items in the body replace those stored; a body without them keeps them.
pub(super) async fn acquire(ask: &Ask, key: VariableKey, request: VariableRequest) -> Answered {
    let (lock, held) = request::new_lock(request.lock.as_ref())?;
    let given = request.items.filter(|items| !items.is_empty());
    let written = given.clone().unwrap_or_default();
    items::check(&written)?;
    let mut sealed_again = SealedAgain::default();
    let changed = loop {
        let change = VariableChange::Acquire {
            sealed: items::seal(&ask.api, &key, &written).await?,
            items: match given {
                Some(_) => AcquiredItems::Written,
                None => AcquiredItems::Kept,
            },
            lock: lock.clone(),
        };
        let command = VariableApply {
            key: key.clone(),
            cas: None,
            lock_id: held,
            change,
        };
        match ask.change(command.into()).await {
            Err(error) if sealed_again.is_due(&ask.api, &error).await => {}
            changed => break changed,
        }
    };
    let done = match changed {
        Ok(changed) => result(ask, changed).await?,
        Err(error) => return refused(ask, key, error).await,
    };
    let shown = shown_items(ask, &key, given, &done).await?;
    // It is the caller's: its new one, or the one that it showed.
    let shown = shown::changed(key, &done.change, shown, LockId::Shown);
    ask.answer(&shown, done.applied.index)
}

/// The items of the answer: those that the caller wrote, or that it may read.
async fn shown_items(
    ask: &Ask,
    key: &VariableKey,
    given: Option<VariableItems>,
    done: &Written,
) -> Result<Option<VariableItems>, HttpError> {
    if given.is_some() {
        return Ok(given);
    }
    match done.applied.snapshot.variable(key) {
        Some(variable) if shown::is_readable(ask, key) => {
            items::open(&ask.api, variable).await.map(Some)
        }
        _ => Ok(None),
    }
}

/// Renews the lock: no entry of the log, no new index.
pub(super) async fn renew(ask: &Ask, key: VariableKey, request: &VariableRequest) -> Answered {
    let id = request::needed_lock(request.lock.as_ref())?;
    let cluster = &ask.api.cluster;
    Box::pin(cluster.renew_lock(&key, id)).await?;
    let mut snapshot = cluster.snapshot();
    let shown = snapshot.variable(&key).and_then(|it| it.lock.as_ref());
    if shown.is_none_or(|lock| lock.id != id) {
        // This server is behind the leader, or the lock is gone since.
        snapshot = cluster.consistent().await?;
    }
    let Some(variable) = snapshot.variable(&key) else {
        return Err(HttpError::not_found("variable doesn't exist"));
    };
    let id = LockId::to_holder(ask, Some(id), variable.lock.as_ref());
    let metadata = shown::metadata(variable, id);
    ask.answer(&metadata, variable.modify_index)
}

/// Releases the lock; the answer has neither items nor a lock.
pub(super) async fn release(ask: &Ask, key: VariableKey, request: &VariableRequest) -> Answered {
    let id = request::needed_lock(request.lock.as_ref())?;
    if request.items.is_some() {
        return Err(HttpError::bad_request(
            "lock release operation doesn't take variable items",
        ));
    }
    let command = VariableApply {
        key: key.clone(),
        cas: None,
        lock_id: Some(id),
        change: VariableChange::Release,
    };
    match ask.change(command.into()).await {
        Ok(changed) => {
            let done = result(ask, changed).await?;
            let shown = shown::changed(key, &done.change, None, LockId::Hidden);
            ask.answer(&shown, done.applied.index)
        }
        Err(error) => refused(ask, key, error).await,
    }
}
