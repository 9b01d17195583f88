//! A node's reports against what the state has: which of them say something new, and what of them
//! belongs into the log. Whoever holds a session asks, before it proposes.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{AllocId, Allocation, Node, NodeId};
use protocol_wire::report::AllocReport;

use crate::apply::take_facts;
use crate::command::NodeSynced;
use crate::record::SessionEpoch;
use crate::tables::Tables;

/// A complete report, all of its parts together.
#[derive(Clone, PartialEq, Debug)]
pub struct CompleteReport {
    /// Whose.
    pub node: NodeId,
    /// In which session.
    pub epoch: SessionEpoch,
    /// Whether what the node knows is of this cluster's history. Where it is not, its versions and
    /// its watermark say nothing.
    pub ours: bool,
    /// How far its watch had come.
    pub watch_index: u64,
    /// Everything that it has.
    pub reports: Vec<AllocReport>,
    /// What it says of itself, where that may have changed: it does not know what of it is known.
    pub facts: Option<Arc<Node>>,
}

impl CompleteReport {
    /// The command that takes it in, as news to `tables`.
    pub fn command(&self, tables: &Tables) -> NodeSynced {
        let (changed, same): (Vec<_>, Vec<_>) = self
            .reports
            .iter()
            .partition(|report| is_news_to(report, tables));
        NodeSynced {
            node: self.node,
            epoch: self.epoch,
            watch_index: if self.ours { self.watch_index } else { 0 },
            changed: durable(changed.into_iter().cloned().collect()),
            unchanged: same.into_iter().map(|report| report.id).collect(),
            facts: self.facts.clone().filter(|facts| is_new(facts, tables)),
        }
    }

    /// The versions that the node acts on already: its watch begins with them.
    pub fn known(&self) -> BTreeMap<AllocId, u64> {
        let version = |report: &AllocReport| {
            // Versions of another history say nothing: all of it is told anew.
            if self.ours { report.desired_version } else { 0 }
        };
        self.reports
            .iter()
            .map(|report| (report.id, version(report)))
            .collect()
    }

    /// How many of its reports say what `tables` have already.
    pub fn repeated(&self, tables: &Tables) -> usize {
        let reports = self.reports.iter();
        reports.filter(|report| !is_news_to(report, tables)).count()
    }

    /// Whether it says something that `tables` do not have.
    pub fn is_news(&self, tables: &Tables) -> bool {
        self.reports.iter().any(|report| is_news_to(report, tables))
    }
}

/// Whether a node's facts are others than those that the state has of it.
fn is_new(facts: &Node, tables: &Tables) -> bool {
    tables.node(facts.id).is_none_or(|record| {
        let mut node = Node::clone(&record.node);
        take_facts(&mut node, facts);
        node != *record.node
    })
}

fn is_news_to(report: &AllocReport, tables: &Tables) -> bool {
    tables
        .alloc(report.id)
        .is_none_or(|alloc| is_news(report, alloc))
}

/// Whether a report says something that the state does not have. Events are volatile and do not
/// count.
fn is_news(report: &AllocReport, stored: &Allocation) -> bool {
    let AllocReport {
        id: _,
        revision: _,
        client_status,
        client_description,
        task_states,
        health,
        desired_version: _,
        network,
    } = report;
    *client_status != stored.client_status
        || *client_description != stored.client_description
        || network.as_ref() != stored.network_status.as_deref()
        || task_states.len() != stored.task_states.len()
        || task_states.iter().any(|(name, state)| {
            stored
                .task_states
                .get(name)
                .is_none_or(|known| !state.same_but_events(known))
        })
        || health.is_some_and(|health| {
            stored
                .deployment_status
                .as_ref()
                .and_then(|status| status.healthy)
                != Some(health.healthy)
        })
}

/// Reports without what does not belong into the log: the events of allocations that live. The last
/// word of one that ended keeps them, because its node may go away.
pub fn durable(mut reports: Vec<AllocReport>) -> Vec<AllocReport> {
    for report in &mut reports {
        if !report.client_status.is_terminal() {
            report
                .task_states
                .values_mut()
                .for_each(|state| state.events = Vec::new());
        }
    }
    reports
}
