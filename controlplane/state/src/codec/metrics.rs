//! Between a placement's metrics and their message.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol_model::{AllocMetric, ExhaustedResources, NodeScoreMeta};
use protocol_wire::convert::{id_bytes, node_id};
use protocol_wire::log;

use super::DecodeError;

pub(super) fn to_message(metrics: &AllocMetric) -> log::Metrics {
    let AllocMetric {
        nodes_evaluated,
        nodes_filtered,
        nodes_in_pool,
        nodes_available,
        class_filtered,
        constraint_filtered,
        nodes_exhausted,
        class_exhausted,
        dimension_exhausted,
        quota_exhausted,
        resources_exhausted,
        score_meta_data,
        allocation_time,
        coalesced_failures,
    } = metrics;
    log::Metrics {
        nodes_evaluated: *nodes_evaluated,
        nodes_filtered: *nodes_filtered,
        nodes_in_pool: *nodes_in_pool,
        nodes_exhausted: *nodes_exhausted,
        coalesced_failures: *coalesced_failures,
        // Five centuries fit.
        allocation_time_ns: u64::try_from(allocation_time.as_nanos()).unwrap_or(u64::MAX),
        nodes_available: count_messages(nodes_available),
        class_filtered: count_messages(class_filtered),
        constraint_filtered: count_messages(constraint_filtered),
        class_exhausted: count_messages(class_exhausted),
        dimension_exhausted: count_messages(dimension_exhausted),
        quota_exhausted: quota_exhausted.clone(),
        scores: score_meta_data.iter().map(score_message).collect(),
        resources_exhausted: resources_exhausted.iter().map(exhausted_message).collect(),
    }
}

pub(super) fn from_message(message: log::Metrics) -> Result<AllocMetric, DecodeError> {
    let log::Metrics {
        nodes_evaluated,
        nodes_filtered,
        nodes_in_pool,
        nodes_exhausted,
        coalesced_failures,
        allocation_time_ns,
        nodes_available,
        class_filtered,
        constraint_filtered,
        class_exhausted,
        dimension_exhausted,
        quota_exhausted,
        scores,
        resources_exhausted,
    } = message;
    Ok(AllocMetric {
        nodes_evaluated,
        nodes_filtered,
        nodes_in_pool,
        nodes_available: counts(nodes_available),
        class_filtered: counts(class_filtered),
        constraint_filtered: counts(constraint_filtered),
        nodes_exhausted,
        class_exhausted: counts(class_exhausted),
        dimension_exhausted: counts(dimension_exhausted),
        quota_exhausted,
        resources_exhausted: resources_exhausted.into_iter().map(exhausted).collect(),
        score_meta_data: scores.into_iter().map(score).collect::<Result<_, _>>()?,
        allocation_time: Duration::from_nanos(allocation_time_ns),
        coalesced_failures,
    })
}

fn count_messages(counts: &BTreeMap<String, u64>) -> Vec<log::Count> {
    let counts = counts.iter().map(|(of, count)| log::Count {
        of: of.clone(),
        count: *count,
    });
    counts.collect()
}

fn counts(messages: Vec<log::Count>) -> BTreeMap<String, u64> {
    let counts = messages
        .into_iter()
        .map(|log::Count { of, count }| (of, count));
    counts.collect()
}

fn exhausted_message((task, amount): (&String, &ExhaustedResources)) -> log::TaskExhausted {
    let ExhaustedResources { cpu, memory_mb } = *amount;
    log::TaskExhausted {
        task: task.clone(),
        cpu,
        memory_mb,
    }
}

fn exhausted(message: log::TaskExhausted) -> (String, ExhaustedResources) {
    let log::TaskExhausted {
        task,
        cpu,
        memory_mb,
    } = message;
    (task, ExhaustedResources { cpu, memory_mb })
}

fn score_message(of_node: &NodeScoreMeta) -> log::NodeScore {
    let NodeScoreMeta {
        node_id,
        scores,
        norm_score,
    } = of_node;
    let scores = scores.iter().map(|(of, score)| log::Score {
        of: of.clone(),
        score: *score,
    });
    log::NodeScore {
        node_id: id_bytes(node_id.as_bytes()),
        scores: scores.collect(),
        norm: *norm_score,
    }
}

fn score(message: log::NodeScore) -> Result<NodeScoreMeta, DecodeError> {
    let log::NodeScore {
        node_id: id,
        scores,
        norm,
    } = message;
    let scores = scores
        .into_iter()
        .map(|log::Score { of, score }| (of, score));
    Ok(NodeScoreMeta {
        node_id: node_id("score.node_id", &id).map_err(DecodeError::Field)?,
        scores: scores.collect(),
        norm_score: norm,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_resources_come_back_from_their_message() {
        let amount = ExhaustedResources {
            cpu: 500,
            memory_mb: 0,
        };
        let metrics = AllocMetric {
            resources_exhausted: [("web".to_owned(), amount)].into(),
            ..AllocMetric::default()
        };
        let back = from_message(to_message(&metrics)).expect("a message");
        assert_eq!(back, metrics);
    }
}
