//! Variables in the log: sealed values are bytes there, never text.

use std::time::Duration;

use bytes::Bytes;
use protocol_wire::convert::{ConvertError, bytes16, id_bytes};
use protocol_wire::log;
use protocol_wire::log::variable_apply::Change as Message;
use uuid::Uuid;

use super::DecodeError;
use crate::access::Sealed;
use crate::command::{
    AcquiredItems, ResealedVariable, VariableApply, VariableChange, VariableLocksExpire,
    VariablesRekey,
};
use crate::variable::{VariableKey, VariableLock};

pub(super) fn apply_message(command: &VariableApply) -> log::VariableApply {
    let VariableApply {
        key,
        cas,
        lock_id,
        change,
    } = command;
    let change = match change {
        VariableChange::Write(sealed) => Message::Write(sealed_message(sealed)),
        VariableChange::Delete => Message::Delete(log::Barrier {}),
        VariableChange::Release => Message::Release(log::Barrier {}),
        VariableChange::Acquire {
            sealed,
            items,
            lock,
        } => {
            let VariableLock {
                id,
                ttl,
                delay,
                until: _,
            } = lock;
            Message::Acquire(log::VariableAcquire {
                sealed: Some(sealed_message(sealed)),
                keeps_items: *items == AcquiredItems::Kept,
                lock_id: id_bytes(id.as_bytes()),
                ttl_ns: nanos(*ttl),
                delay_ns: nanos(*delay),
            })
        }
    };
    log::VariableApply {
        namespace: key.namespace.clone(),
        path: key.path.clone(),
        cas: *cas,
        lock_id: lock_id.map(|id| id_bytes(id.as_bytes())),
        change: Some(change),
    }
}

pub(super) fn apply(message: log::VariableApply) -> Result<VariableApply, DecodeError> {
    let log::VariableApply {
        namespace,
        path,
        cas,
        lock_id,
        change,
    } = message;
    let change = match change.ok_or(DecodeError::Missing("the change of a variable"))? {
        Message::Write(message) => VariableChange::Write(sealed(message)?),
        Message::Delete(log::Barrier {}) => VariableChange::Delete,
        Message::Release(log::Barrier {}) => VariableChange::Release,
        Message::Acquire(log::VariableAcquire {
            sealed: message,
            keeps_items,
            lock_id,
            ttl_ns,
            delay_ns,
        }) => VariableChange::Acquire {
            sealed: sealed(message.ok_or(DecodeError::Missing("a sealed value"))?)?,
            items: match keeps_items {
                true => AcquiredItems::Kept,
                false => AcquiredItems::Written,
            },
            lock: VariableLock {
                id: id("lock_id", &lock_id)?,
                ttl: Duration::from_nanos(ttl_ns),
                delay: Duration::from_nanos(delay_ns),
                until: None,
            },
        },
    };
    Ok(VariableApply {
        key: VariableKey { namespace, path },
        cas,
        lock_id: lock_id.map(|bytes| id("lock_id", &bytes)).transpose()?,
        change,
    })
}

pub(super) fn expire_message(command: &VariableLocksExpire) -> log::VariableLocksExpire {
    let locks = command.locks.iter().map(|(key, id)| log::VariableLockName {
        namespace: key.namespace.clone(),
        path: key.path.clone(),
        lock_id: id_bytes(id.as_bytes()),
    });
    log::VariableLocksExpire {
        locks: locks.collect(),
    }
}

pub(super) fn expire(
    message: log::VariableLocksExpire,
) -> Result<VariableLocksExpire, DecodeError> {
    let locks = message.locks.into_iter().map(|name| {
        let log::VariableLockName {
            namespace,
            path,
            lock_id,
        } = name;
        Ok((VariableKey { namespace, path }, id("lock_id", &lock_id)?))
    });
    Ok(VariableLocksExpire {
        locks: locks.collect::<Result<_, DecodeError>>()?,
    })
}

pub(super) fn rekey_message(command: &VariablesRekey) -> log::VariablesRekey {
    let variables = command.variables.iter().map(|resealed| {
        let ResealedVariable {
            key: VariableKey { namespace, path },
            replaces: (root_key, nonce),
            sealed,
        } = resealed;
        log::ResealedVariable {
            namespace: namespace.clone(),
            path: path.clone(),
            key: *root_key,
            nonce: Bytes::copy_from_slice(nonce),
            sealed: Some(sealed_message(sealed)),
        }
    });
    log::VariablesRekey {
        variables: variables.collect(),
    }
}

pub(super) fn rekey(message: log::VariablesRekey) -> Result<VariablesRekey, DecodeError> {
    let variables = message.variables.into_iter().map(|resealed| {
        let log::ResealedVariable {
            namespace,
            path,
            key,
            nonce,
            sealed: message,
        } = resealed;
        Ok(ResealedVariable {
            key: VariableKey { namespace, path },
            replaces: (key, bytes12(&nonce)?),
            sealed: sealed(message.ok_or(DecodeError::Missing("a sealed value"))?)?,
        })
    });
    Ok(VariablesRekey {
        variables: variables.collect::<Result<_, DecodeError>>()?,
    })
}

/// A sealed value as a message.
pub(super) fn sealed_message(sealed: &Sealed) -> log::Sealed {
    let Sealed { key, nonce, bytes } = sealed;
    log::Sealed {
        key: *key,
        nonce: Bytes::copy_from_slice(nonce),
        bytes: Bytes::copy_from_slice(bytes),
    }
}

/// A sealed value of a message.
pub(super) fn sealed(message: log::Sealed) -> Result<Sealed, DecodeError> {
    let log::Sealed { key, nonce, bytes } = message;
    Ok(Sealed {
        key,
        nonce: bytes12(&nonce)?,
        bytes: bytes.to_vec(),
    })
}

/// A nonce of a message.
pub(super) fn bytes12(nonce: &[u8]) -> Result<[u8; 12], DecodeError> {
    let found = nonce.len();
    nonce.try_into().map_err(|_| {
        DecodeError::Field(ConvertError::Length {
            field: "nonce",
            wanted: 12,
            found,
        })
    })
}

fn id(field: &'static str, bytes: &[u8]) -> Result<Uuid, DecodeError> {
    let bytes = bytes16(field, bytes).map_err(DecodeError::Field)?;
    Ok(Uuid::from_bytes(bytes))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
