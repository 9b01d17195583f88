//! `PUT` and `DELETE /v1/var/:path`.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use controlplane_state::command::{VariableApply, VariableChange};
use controlplane_state::{Outcome, Refusal, VariableChanged, VariableKey, VariableRefusal};
use protocol_api::variables::VariableRequest;

use super::items::SealedAgain;
use super::request::{self, Operation};
use super::shown::{self, LockId};
use super::{items, key, lock};
use crate::cluster::{ChangeError, Changed};
use crate::http::acl::written::{Applied, applied};
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};

pub(super) async fn write(ask: &Ask) -> Answered {
    let (operation, cas) = Operation::of(&ask.query)?;
    let request: VariableRequest = ask.json()?;
    let key = key(ask, &request.namespace)?;
    ask.settle_variable(&key)?;
    match operation {
        Operation::Write => put(ask, key, cas, request).await,
        Operation::Acquire => lock::acquire(ask, key, request).await,
        Operation::Renew => lock::renew(ask, key, &request).await,
        Operation::Release => lock::release(ask, key, &request).await,
    }
}

async fn put(ask: &Ask, key: VariableKey, cas: Option<u64>, request: VariableRequest) -> Answered {
    let items = request::needed_items(request.items)?;
    items::check(&items)?;
    let lock_id = request::shown_lock(request.lock.as_ref())?;
    let mut sealed_again = SealedAgain::default();
    let changed = loop {
        let sealed = items::seal(&ask.api, &key, &items).await?;
        let command = VariableApply {
            key: key.clone(),
            cas,
            lock_id,
            change: VariableChange::Write(sealed),
        };
        match ask.change(command.into()).await {
            Err(error) if sealed_again.is_due(&ask.api, &error).await => {}
            changed => break changed,
        }
    };
    let written = match changed {
        Ok(changed) => result(ask, changed).await?,
        Err(error) => return refused(ask, key, error).await,
    };
    let id = LockId::to_holder(ask, lock_id, written.change.lock.as_ref());
    let shown = shown::changed(key, &written.change, Some(items), id);
    ask.answer(&shown, written.applied.index)
}

pub(super) async fn remove(ask: &Ask) -> Answered {
    let request: VariableRequest = ask.json_or_default()?;
    let key = key(ask, &request.namespace)?;
    ask.settle_variable(&key)?;
    let command = VariableApply {
        key: key.clone(),
        cas: request::cas(&ask.query)?,
        lock_id: request::shown_lock(request.lock.as_ref())?,
        change: VariableChange::Delete,
    };
    match ask.change(command.into()).await {
        Ok(changed) => {
            let applied = Box::pin(applied(ask, changed)).await?;
            let mut response: Response = StatusCode::NO_CONTENT.into_response();
            ask.put_headers(response.headers_mut(), applied.index);
            Ok(response)
        }
        Err(error) => refused(ask, key, error).await,
    }
}

/// A change that was made, and the variable as it left it.
pub(super) struct Written {
    pub(super) applied: Applied,
    pub(super) change: VariableChanged,
}

/// Waits until a change is applied here: the next request that this server gets sees it.
pub(super) async fn result(ask: &Ask, changed: Changed) -> Result<Written, HttpError> {
    let applied = Box::pin(applied(ask, changed)).await?;
    match &applied.outcome {
        Outcome::VariableChanged(change) => Ok(Written {
            change: VariableChanged::clone(change),
            applied,
        }),
        other => Err(HttpError::internal(format!(
            "a change of a variable had another outcome: {other:?}"
        ))),
    }
}

/// The answer to a change that was refused.
pub(super) async fn refused(ask: &Ask, key: VariableKey, error: ChangeError) -> Answered {
    match error {
        ChangeError::Refused(Refusal::Variable(VariableRefusal::Locked)) => {
            shown::conflict_of(ask, key)
        }
        ChangeError::Refused(Refusal::Variable(VariableRefusal::Conflict { .. })) => {
            present(ask, key).await
        }
        error => Err(error.into()),
    }
}

/// 409 with the present variable, its items for those who may read it.
async fn present(ask: &Ask, key: VariableKey) -> Answered {
    let snapshot = Box::pin(ask.consistent()).await?;
    let Some(variable) = snapshot.variable(&key) else {
        return shown::conflict_of(ask, key);
    };
    let id = LockId::on_read(ask);
    let shown = match shown::is_readable(ask, &key) {
        true => shown::whole(ask, variable, id).await?,
        false => shown::without_items(variable, id),
    };
    shown::conflict(ask, &shown)
}
