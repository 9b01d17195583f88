//! Commands of level 3, every field set. One function per file of commands.

use controlplane_state::{NamespaceCapabilities, NamespaceNodePools};

use super::*;

pub(super) fn namespaces() -> Vec<(&'static str, Command)> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let namespace = Namespace {
        name: "team".to_owned(),
        description: "a team".to_owned(),
        meta: BTreeMap::from([("owner".to_owned(), "ops".to_owned())]),
        capabilities: NamespaceCapabilities {
            enabled_task_drivers: names(&["exec", "mock"]),
            disabled_task_drivers: names(&["raw_exec"]),
            enabled_network_modes: names(&["bridge"]),
            disabled_network_modes: names(&["host"]),
        },
        node_pool_configuration: Some(NamespaceNodePools {
            default: "batch".to_owned(),
            allowed: Some(names(&["b*"])),
            denied: names(&["prod"]),
        }),
        variables_bytes_max: 1 << 20,
        create_index: 0,
        modify_index: 0,
    };
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
