//! Why an allocation went where it went, or nowhere.

use std::collections::{BTreeMap, BTreeSet};

use protocol_model::AllocMetric;

use super::columns::Columns;
use crate::find::{Length, shown};

/// What each group that could not be placed was missing.
pub(crate) fn failures(groups: &BTreeMap<String, AllocMetric>) -> String {
    let mut text = String::new();
    for (name, metric) in groups {
        let count = metric.coalesced_failures + 1;
        let noun = if count == 1 {
            "allocation"
        } else {
            "allocations"
        };
        text.push_str(&format!(
            "Task Group {name:?} (failed to place {count} {noun}):\n"
        ));
        text.push_str(&explanation(metric, "  "));
    }
    text
}

/// What was filtered out and what was exhausted, a line each.
pub(crate) fn explanation(metric: &AllocMetric, indent: &str) -> String {
    let mut lines = Vec::new();
    if metric.nodes_evaluated == 0 {
        lines.push("No nodes were eligible for evaluation".to_owned());
    }
    for (datacenter, count) in &metric.nodes_available {
        if *count == 0 {
            lines.push(format!(
                "No nodes are available in datacenter {datacenter:?}"
            ));
        }
    }
    for (class, count) in &metric.class_filtered {
        lines.push(format!(
            "Class {class:?}: {} excluded by filter",
            nodes(*count)
        ));
    }
    for (constraint, count) in &metric.constraint_filtered {
        lines.push(format!(
            "Constraint {constraint:?}: {} excluded by filter",
            nodes(*count)
        ));
    }
    if metric.nodes_exhausted > 0 {
        lines.push(format!(
            "Resources exhausted on {}",
            nodes(metric.nodes_exhausted)
        ));
    }
    for (class, count) in &metric.class_exhausted {
        lines.push(format!("Class {class:?} exhausted on {}", nodes(*count)));
    }
    for (dimension, count) in &metric.dimension_exhausted {
        lines.push(format!(
            "Dimension {dimension:?} exhausted on {}",
            nodes(*count)
        ));
    }
    for dimension in &metric.quota_exhausted {
        lines.push(format!("Quota limit hit {dimension:?}"));
    }
    lines
        .iter()
        .map(|line| format!("{indent}* {line}\n"))
        .collect()
}

/// The scores of the nodes that were looked at, the best first. A component that does not count for
/// a node is a dash: the final score is the mean of the others.
pub(crate) fn scores(metric: &AllocMetric, length: Length) -> String {
    if metric.score_meta_data.is_empty() {
        return String::new();
    }
    let all = metric
        .score_meta_data
        .iter()
        .flat_map(|node| node.scores.keys());
    let names: BTreeSet<&str> = all.map(String::as_str).collect();
    let mut heading = vec!["Node"];
    heading.extend(&names);
    heading.push("final score");
    let mut table = Columns::new(&heading);
    for node in &metric.score_meta_data {
        let mut cells = vec![shown(&node.node_id.to_string(), length)];
        cells.extend(names.iter().map(|name| match node.scores.get(*name) {
            Some(score) => number(*score),
            None => "-".to_owned(),
        }));
        cells.push(number(node.norm_score));
        table.row(cells);
    }
    table.render()
}

fn number(value: f64) -> String {
    // At most three digits behind the point, and no tail of zeros.
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// A number of nodes in words.
pub(crate) fn nodes(count: u64) -> String {
    if count == 1 {
        "1 node".to_owned()
    } else {
        format!("{count} nodes")
    }
}

#[cfg(test)]
mod tests {
    use protocol_model::{NodeId, NodeScoreMeta};

    use super::*;

    #[test]
    fn every_component_of_any_node_has_its_column() {
        let meta = |number: u128, scores: &[(&str, f64)], norm_score| NodeScoreMeta {
            node_id: NodeId::from_u128(number),
            scores: scores
                .iter()
                .map(|(name, score)| ((*name).to_owned(), *score))
                .collect(),
            norm_score,
        };
        let metric = AllocMetric {
            score_meta_data: vec![
                meta(1 << 96, &[("binpack", 0.5)], 0.5),
                meta(
                    2 << 96,
                    &[("binpack", 0.5), ("node-affinity", -0.25)],
                    0.125,
                ),
            ],
            ..AllocMetric::default()
        };
        assert_eq!(
            scores(&metric, Length::Short),
            "Node      binpack  node-affinity  final score\n\
             00000001  0.5      -              0.5\n\
             00000002  0.5      -0.25          0.125\n"
        );
    }
}
