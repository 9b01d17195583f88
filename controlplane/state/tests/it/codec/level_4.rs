//! Commands of level 4, every field set. One function per file of commands.

use controlplane_state::command::{
    AcquiredItems, ResealedVariable, VariableApply, VariableChange, VariableLocksExpire,
    VariablesRekey,
};
use uuid::Uuid;

use super::*;
use crate::variables::{acquire, change, key, lock, sealed_bytes, write};

pub(super) fn variables() -> Vec<(&'static str, Command)> {
    let everything = VariableApply {
        cas: Some(7),
        lock_id: Some(Uuid::from_u128(9)),
        ..write("app/db", 5)
    };
    let with_items = VariableChange::Acquire {
        sealed: sealed_bytes(5),
        items: AcquiredItems::Written,
        lock: lock(3),
    };
    let rekey = VariablesRekey {
        variables: vec![ResealedVariable {
            key: key("app/db"),
            replaces: (2, [7; 12]),
            sealed: sealed_bytes(5),
        }],
    };
    let locks = vec![
        (key("app/db"), Uuid::from_u128(9)),
        (key("b"), Uuid::from_u128(10)),
    ];
    vec![
        ("variable_write", everything.into()),
        ("variable_acquire", acquire("app/db", 3).into()),
        (
            "variable_acquire_items",
            change("app/db", with_items).into(),
        ),
        (
            "variable_delete",
            change("app/db", VariableChange::Delete).into(),
        ),
        (
            "variable_release",
            change("app/db", VariableChange::Release).into(),
        ),
        (
            "variable_locks_expire",
            VariableLocksExpire { locks }.into(),
        ),
        ("variables_rekey", rekey.into()),
    ]
}
