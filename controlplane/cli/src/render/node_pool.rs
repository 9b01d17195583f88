//! Node pools: the list, and one with its settings.

use protocol_api::node_pools::NodePool;

use super::columns::{Columns, pairs};

/// All node pools.
pub(crate) fn list(pools: &[NodePool]) -> String {
    if pools.is_empty() {
        return "No node pools".to_owned();
    }
    let mut table = Columns::new(&["Name", "Description"]);
    for pool in pools {
        table.row([pool.name.clone(), pool.description.clone()]);
    }
    table.render()
}

/// One node pool.
pub(crate) fn one(pool: &NodePool) -> String {
    let head = pairs(&[
        ("Name", pool.name.clone()),
        ("Description", pool.description.clone()),
    ]);
    let meta: Vec<(&str, String)> = pool
        .meta
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    let meta = match meta.is_empty() {
        true => "No metadata\n".to_owned(),
        false => pairs(&meta),
    };
    let scheduler = scheduler(pool).unwrap_or_else(|| "No scheduler configuration\n".to_owned());
    format!("{head}\nMetadata\n{meta}\nScheduler Configuration\n{scheduler}")
}

fn scheduler(pool: &NodePool) -> Option<String> {
    let scheduler = pool.scheduler_configuration.as_ref()?;
    let mut lines = Vec::new();
    if !scheduler.scheduler_algorithm.is_empty() {
        let algorithm = scheduler.scheduler_algorithm.clone();
        lines.push(("Scheduler Algorithm", algorithm));
    }
    if let Some(enabled) = scheduler.memory_oversubscription_enabled {
        let enabled = enabled.to_string();
        lines.push(("Memory Oversubscription Enabled", enabled));
    }
    (!lines.is_empty()).then(|| pairs(&lines))
}
