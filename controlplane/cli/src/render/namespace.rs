//! Namespaces: the list, and one with what its jobs may use.

use protocol_api::namespaces::{Namespace, NamespaceNodePoolConfiguration};

use super::columns::{Columns, pairs};

/// All namespaces.
pub(crate) fn list(namespaces: &[Namespace]) -> String {
    if namespaces.is_empty() {
        return "No namespaces found".to_owned();
    }
    let mut table = Columns::new(&["Name", "Description"]);
    for namespace in namespaces {
        table.row([namespace.name.clone(), namespace.description.clone()]);
    }
    table.render()
}

/// One namespace.
pub(crate) fn one(namespace: &Namespace) -> String {
    let capabilities = namespace.capabilities.clone().unwrap_or_default();
    let enabled = |names: &[String]| match names.is_empty() {
        true => "*".to_owned(),
        false => names.join(","),
    };
    let mut head = vec![
        ("Name", namespace.name.clone()),
        ("Description", namespace.description.clone()),
        ("Quota", namespace.quota.clone()),
        (
            "EnabledDrivers",
            enabled(&capabilities.enabled_task_drivers),
        ),
        (
            "DisabledDrivers",
            capabilities.disabled_task_drivers.join(","),
        ),
        (
            "EnabledNetworkModes",
            enabled(&capabilities.enabled_network_modes),
        ),
        (
            "DisabledNetworkModes",
            capabilities.disabled_network_modes.join(","),
        ),
    ];
    if namespace.variables_bytes_max > 0 {
        head.push((
            "VariablesBytesMax",
            namespace.variables_bytes_max.to_string(),
        ));
    }
    let mut text = pairs(&head);
    if !namespace.meta.is_empty() {
        let meta = namespace.meta.iter();
        let meta: Vec<(&str, String)> = meta
            .map(|(key, value)| (key.as_str(), value.clone()))
            .collect();
        text.push_str("\nMetadata\n");
        text.push_str(&pairs(&meta));
    }
    if let Some(pools) = &namespace.node_pool_configuration {
        text.push_str("\nNode Pool Configuration\n");
        text.push_str(&node_pools(pools));
    }
    text
}

fn node_pools(pools: &NamespaceNodePoolConfiguration) -> String {
    let mut lines = vec![("Default", pools.default.clone())];
    if let Some(allowed) = &pools.allowed {
        lines.push(("Allowed", allowed.join(", ")));
    }
    if !pools.denied.is_empty() {
        lines.push(("Denied", pools.denied.join(", ")));
    }
    pairs(&lines)
}
