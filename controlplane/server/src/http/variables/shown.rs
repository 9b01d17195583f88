//! Variables as callers see them.

use axum::http::StatusCode;
use axum::response::Response;
use controlplane_state::{Variable, VariableChanged, VariableKey, VariableLock};
use protocol_access::VariableCapability;
use protocol_api::variables::{self, VariableItems, VariableMetadata};
use protocol_model::SecretText;
use uuid::Uuid;

use super::items;
use crate::access::Caller;
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};

/// Whether the id of a lock is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LockId {
    /// To its holder.
    Shown,
    /// To others.
    Hidden,
}

impl LockId {
    /// On reads: to management, and where access control is off.
    pub(super) fn on_read(ask: &Ask) -> Self {
        match ask.is_manager() || ask.caller() == Caller::Open {
            true => Self::Shown,
            false => Self::Hidden,
        }
    }

    /// In the answer to a caller that showed this id.
    pub(super) fn to_holder(ask: &Ask, shown: Option<Uuid>, lock: Option<&VariableLock>) -> Self {
        match lock {
            Some(lock) if shown == Some(lock.id) => Self::Shown,
            _ => Self::on_read(ask),
        }
    }
}

/// Whether the caller may read the variable.
pub(super) fn is_readable(ask: &Ask, key: &VariableKey) -> bool {
    let read = VariableCapability::Read;
    ask.acl().variable(&key.namespace, &key.path, read)
}

/// A variable with its items.
///
/// # Errors
/// Where they do not open here.
pub(super) async fn whole(
    ask: &Ask,
    variable: &Variable,
    id: LockId,
) -> Result<variables::Variable, HttpError> {
    let items = items::open(&ask.api, variable).await?;
    Ok(variables::Variable {
        items: Some(items),
        ..without_items(variable, id)
    })
}

/// A variable whose items are not shown.
pub(super) fn without_items(variable: &Variable, id: LockId) -> variables::Variable {
    let metadata = metadata(variable, id);
    variables::Variable {
        namespace: metadata.namespace,
        path: metadata.path,
        create_index: metadata.create_index,
        create_time: metadata.create_time,
        modify_index: metadata.modify_index,
        modify_time: metadata.modify_time,
        items: None,
        lock: metadata.lock,
    }
}

/// A variable as a change left it.
pub(super) fn changed(
    key: VariableKey,
    changed: &VariableChanged,
    items: Option<VariableItems>,
    id: LockId,
) -> variables::Variable {
    let VariableChanged {
        create_time,
        modify_time,
        create_index,
        modify_index,
        lock,
    } = changed;
    variables::Variable {
        namespace: key.namespace,
        path: key.path,
        create_index: *create_index,
        create_time: *create_time,
        modify_index: *modify_index,
        modify_time: *modify_time,
        items,
        lock: lock.as_ref().map(|lock| shown_lock(lock, id)),
    }
}

/// A variable without its items.
pub(super) fn metadata(variable: &Variable, id: LockId) -> VariableMetadata {
    let Variable {
        key,
        sealed: _,
        create_time,
        modify_time,
        create_index,
        modify_index,
        lock,
    } = variable;
    VariableMetadata {
        namespace: key.namespace.clone(),
        path: key.path.clone(),
        create_index: *create_index,
        create_time: *create_time,
        modify_index: *modify_index,
        modify_time: *modify_time,
        lock: lock.as_ref().map(|lock| shown_lock(lock, id)),
    }
}

fn shown_lock(lock: &VariableLock, id: LockId) -> variables::VariableLock {
    let VariableLock {
        id: secret,
        ttl,
        delay,
        until: _,
    } = lock;
    let shown = match id {
        LockId::Shown => SecretText::new(secret.to_string()),
        LockId::Hidden => SecretText::default(),
    };
    variables::VariableLock {
        id: shown,
        ttl: *ttl,
        lock_delay: *delay,
    }
}

/// 409 with a variable.
///
/// # Errors
/// Never.
pub(super) fn conflict(ask: &Ask, variable: &variables::Variable) -> Answered {
    let mut answer: Response = ask.answer(variable, variable.modify_index)?;
    *answer.status_mut() = StatusCode::CONFLICT;
    Ok(answer)
}

/// 409 with a variable that shows its name alone.
///
/// # Errors
/// Never.
pub(super) fn conflict_of(ask: &Ask, key: VariableKey) -> Answered {
    let empty = variables::Variable {
        namespace: key.namespace,
        path: key.path,
        ..variables::Variable::default()
    };
    conflict(ask, &empty)
}
