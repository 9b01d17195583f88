//! Facts about nodes, and the operator's switches.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{Eligibility, EvalTrigger, Node, NodeEvent as NodeHistory, NodeId, UnixNanos};

use super::draft::Draft;
use super::node_evals::WantedEvals;
use crate::applied::{Outcome, Refusal, Signal};
use crate::record::{NodeRecord, SessionEpoch};
use crate::session::{NodeEvent, Verdict};
use crate::tables::Tables;

/// How many events of a node are kept; the oldest go first (as Nomad keeps them).
pub(crate) const NODE_EVENTS_MAX: usize = 10;

/// Whether new facts can change a placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FactsChange {
    /// They can.
    Matters,
    /// They are the same, or for people only.
    Cosmetic,
}

/// Adds a line of the subsystem `Cluster` to a node's history.
pub(super) fn node_event(node: &mut Node, message: &str, now: UnixNanos, index: u64) {
    let event = NodeHistory {
        message: message.to_owned(),
        subsystem: "Cluster".to_owned(),
        details: BTreeMap::new(),
        timestamp: now,
        create_index: index,
    };
    push_event(node, event);
}

fn push_event(node: &mut Node, event: NodeHistory) {
    if node.events.len() >= NODE_EVENTS_MAX {
        let surplus = node.events.len() + 1 - NODE_EVENTS_MAX;
        node.events.drain(..surplus);
    }
    node.events.push(event);
}

/// Copies what a node says about itself. What the control plane knows of it stays.
pub(crate) fn take_facts(node: &mut Node, facts: &Node) -> FactsChange {
    let before = node.clone();
    let Node {
        id: _,
        datacenter,
        name,
        http_addr,
        node_pool,
        attributes,
        node_resources,
        reserved_resources,
        meta,
        node_class,
        computed_class,
        drivers,
        host_volumes,
        // Their addresses, which decide, are in the node's resources.
        host_networks,
        drain: _,
        drain_strategy: _,
        last_drain: _,
        scheduling_eligibility: _,
        status: _,
        status_description: _,
        status_updated_at: _,
        events: _,
        last_missed_heartbeat_index: _,
        last_alloc_update_index: _,
        create_index: _,
        modify_index: _,
    } = facts;
    node.datacenter.clone_from(datacenter);
    node.name.clone_from(name);
    node.http_addr.clone_from(http_addr);
    node.node_pool.clone_from(node_pool);
    node.attributes.clone_from(attributes);
    node.node_resources.clone_from(node_resources);
    node.reserved_resources.clone_from(reserved_resources);
    node.meta.clone_from(meta);
    node.node_class.clone_from(node_class);
    node.computed_class.clone_from(computed_class);
    node.drivers.clone_from(drivers);
    node.host_volumes.clone_from(host_volumes);
    node.host_networks.clone_from(host_networks);
    let same = before.datacenter == node.datacenter
        // Jobs may ask for a node by its name.
        && before.name == node.name
        && before.node_pool == node.node_pool
        && before.attributes == node.attributes
        && before.node_resources == node.node_resources
        && before.reserved_resources == node.reserved_resources
        && before.meta == node.meta
        && before.node_class == node.node_class
        && before.computed_class == node.computed_class
        && before.drivers == node.drivers
        && before.host_volumes == node.host_volumes;
    if same {
        FactsChange::Cosmetic
    } else {
        FactsChange::Matters
    }
}

impl Draft {
    pub(crate) fn node_facts(
        &mut self,
        id: NodeId,
        epoch: SessionEpoch,
        facts: &Node,
    ) -> Result<Outcome, Refusal> {
        if self.judge(id, epoch, NodeEvent::Facts) != Verdict::Accept {
            return Err(Refusal::NotInSession(id));
        }
        Tables::check_pool_of_node(Some(facts))?;
        let Some(record) = self.tables.node(id) else {
            return Err(Refusal::UnknownNode(id));
        };
        let mut record = NodeRecord::clone(record);
        let mut node = Node::clone(&record.node);
        let change = take_facts(&mut node, facts);
        if node == *record.node {
            return Ok(Outcome::NoOp);
        }
        node.modify_index = self.index;
        let ready = node.status == protocol_model::NodeStatus::Ready;
        if change == FactsChange::Matters {
            record.facts_index = self.index;
            record.owes_evals |= !ready;
        }
        record.node = Arc::new(node.clone());
        self.tables.put_node(record);
        self.signal(Signal::NodeChanged(id));
        if ready && change == FactsChange::Matters {
            let mut wanted = WantedEvals::default();
            self.want_node_evals(&mut wanted, &node, EvalTrigger::NodeUpdate);
            self.put_wanted_evals(wanted);
            self.capacity_freed(id);
        }
        Ok(Outcome::Done)
    }

    pub(crate) fn node_eligibility(
        &mut self,
        id: NodeId,
        eligibility: Eligibility,
    ) -> Result<Outcome, Refusal> {
        let Some(record) = self.tables.node(id) else {
            return Err(Refusal::UnknownNode(id));
        };
        if record.node.drain && eligibility == Eligibility::Eligible {
            return Err(Refusal::NodeDraining(id));
        }
        if record.node.scheduling_eligibility == eligibility {
            return Ok(Outcome::NoOp);
        }
        let message = match eligibility {
            Eligibility::Eligible => "Node marked as eligible for scheduling",
            Eligibility::Ineligible => "Node marked as ineligible for scheduling",
        };
        let event = self.history("Cluster", message);
        let evals = self.switch_node(id, event, |_, node| {
            node.scheduling_eligibility = eligibility;
        });
        Ok(Outcome::Evaluated(evals))
    }

    /// A line for a node's history, as of this entry.
    pub(super) fn history(&self, subsystem: &str, message: &str) -> NodeHistory {
        NodeHistory {
            message: message.to_owned(),
            subsystem: subsystem.to_owned(),
            details: BTreeMap::new(),
            timestamp: self.now,
            create_index: self.index,
        }
    }

    /// Changes a node by an operator's switch. Where it may be placed on from now on, jobs that run
    /// on every node are looked at, and those that wait for capacity are told.
    pub(super) fn switch_node(
        &mut self,
        id: NodeId,
        event: NodeHistory,
        change: impl FnOnce(&mut NodeRecord, &mut Node),
    ) -> Vec<protocol_model::EvalId> {
        let Some(record) = self.tables.node(id) else {
            return Vec::new();
        };
        let mut record = NodeRecord::clone(record);
        let mut node = Node::clone(&record.node);
        let was_ready = node.ready();
        change(&mut record, &mut node);
        node.modify_index = self.index;
        push_event(&mut node, event);
        // Who is not ready now is looked at when it is.
        record.owes_evals |= node.status != protocol_model::NodeStatus::Ready;
        record.node = Arc::new(node.clone());
        self.tables.put_node(record);
        self.signal(Signal::NodeChanged(id));
        let mut wanted = WantedEvals::default();
        if node.ready() && !was_ready {
            self.want_system_evals(&mut wanted, &node, EvalTrigger::NodeUpdate);
            self.capacity_freed(id);
        }
        self.put_wanted_evals(wanted)
    }

    pub(crate) fn node_purge(&mut self, id: NodeId) -> Result<Outcome, Refusal> {
        match self.judge(id, SessionEpoch::NONE, NodeEvent::Purge) {
            Verdict::Forget => {}
            Verdict::Unregistered
            | Verdict::NewSession
            | Verdict::SameSession(_)
            | Verdict::Accept
            | Verdict::Become(_)
            | Verdict::CountRejection
            | Verdict::CloseSession
            | Verdict::NoOp
            | Verdict::OwesSync
            | Verdict::NotInSession => return Err(Refusal::UnknownNode(id)),
        }
        let Some(record) = self.tables.node(id).cloned() else {
            return Err(Refusal::UnknownNode(id));
        };
        let mut wanted = WantedEvals::default();
        self.want_node_evals(&mut wanted, &record.node, EvalTrigger::NodeUpdate);
        self.leave_on_lease(id, record.silent_since().unwrap_or(self.now));
        self.tables.remove_node(id);
        let evals = self.put_wanted_evals(wanted);
        self.signal(Signal::NodeRemoved(id));
        Ok(Outcome::Evaluated(evals))
    }
}
