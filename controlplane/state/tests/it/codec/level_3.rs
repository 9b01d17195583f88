//! Commands of level 3, every field set. One function per file of commands.

use super::*;
use crate::namespaces::restricted;

pub(super) fn namespaces() -> Vec<(&'static str, Command)> {
    let namespace = restricted();
    vec![
        ("namespace_upsert", Command::NamespaceUpsert { namespace }),
        (
            "namespace_delete",
            Command::NamespaceDelete {
                name: "team".to_owned(),
                rule: DeletionRule::NothingLive,
            },
        ),
    ]
}
