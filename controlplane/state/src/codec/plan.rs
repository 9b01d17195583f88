//! Plans as messages. A plan may place thousands of allocations of one group, and each server reads
//! them while everything else of its log waits: what they share is written, read and kept once.
//!
//! ```text
//!   placed: a0 a1 a2 | b0 b1      (each `|`: something differs that is not an allocation's own)
//!           first: a0 (JSON), others: a1 a2 (id, node, names, metrics, resources)
//! ```

use std::sync::Arc;

use protocol_model::{AllocMetric, AllocatedResources, Allocation};
use protocol_wire::convert::{alloc_id, id_bytes, node_id};
use protocol_wire::log;

use super::document::{from_document, to_document};
use super::{DecodeError, EncodeError, metrics};
use crate::command::PlanApply;

pub(super) fn to_message(plan: &PlanApply) -> Result<log::Plan, EncodeError> {
    let alike = plan.placed.chunk_by(|one, next| is_alike(one, next));
    let placed = alike.map(alike_message).collect::<Result<_, _>>()?;
    let rest = to_document(&PlanApply {
        placed: Vec::new(),
        ..plan.clone()
    })?;
    Ok(log::Plan {
        rest: Some(rest),
        placed,
    })
}

pub(super) fn from_message(message: log::Plan) -> Result<PlanApply, DecodeError> {
    let log::Plan { rest, placed } = message;
    let rest = rest.ok_or(DecodeError::Missing("a plan's rest"))?;
    let mut plan: PlanApply = from_document(rest)?;
    for alike in placed {
        read_alike(alike, &mut plan.placed)?;
    }
    Ok(plan)
}

/// Whether two allocations differ only in what [`log::Placed`] says.
fn is_alike(one: &Allocation, other: &Allocation) -> bool {
    let mut like = one.clone();
    like.id = other.id;
    like.node_id = other.node_id;
    like.name.clone_from(&other.name);
    like.node_name.clone_from(&other.node_name);
    like.metrics = Arc::clone(&other.metrics);
    like.allocated_resources = Arc::clone(&other.allocated_resources);
    like == *other
}

fn alike_message(alike: &[Arc<Allocation>]) -> Result<log::Alike, EncodeError> {
    let Some((first, others)) = alike.split_first() else {
        return Ok(log::Alike::default());
    };
    let others = others.iter().map(|alloc| placed_message(first, alloc));
    Ok(log::Alike {
        first: Some(to_document(first)?),
        others: others.collect::<Result<_, _>>()?,
    })
}

fn placed_message(first: &Allocation, alloc: &Allocation) -> Result<log::Placed, EncodeError> {
    let resources = alloc.allocated_resources != first.allocated_resources;
    Ok(log::Placed {
        alloc_id: id_bytes(alloc.id.as_bytes()),
        node_id: id_bytes(alloc.node_id.as_bytes()),
        name: alloc.name.clone(),
        node_name: alloc.node_name.clone(),
        metrics: (alloc.metrics != first.metrics).then(|| metrics::to_message(&alloc.metrics)),
        resources: match resources {
            true => Some(to_document(&*alloc.allocated_resources)?),
            false => None,
        },
    })
}

fn read_alike(alike: log::Alike, into: &mut Vec<Arc<Allocation>>) -> Result<(), DecodeError> {
    let log::Alike { first, others } = alike;
    let first = first.ok_or(DecodeError::Missing(
        "the first of allocations that are alike",
    ))?;
    let first: Arc<Allocation> = Arc::new(from_document(first)?);
    into.push(Arc::clone(&first));
    for placed in others {
        into.push(Arc::new(read_placed(placed, &first)?));
    }
    Ok(())
}

fn read_placed(placed: log::Placed, first: &Allocation) -> Result<Allocation, DecodeError> {
    let log::Placed {
        alloc_id: id,
        node_id: node,
        name,
        node_name,
        metrics,
        resources,
    } = placed;
    let mut alloc = Allocation {
        id: alloc_id("placed.alloc_id", &id).map_err(DecodeError::Field)?,
        node_id: node_id("placed.node_id", &node).map_err(DecodeError::Field)?,
        name,
        node_name,
        ..first.clone()
    };
    if let Some(message) = metrics {
        alloc.metrics = Arc::<AllocMetric>::new(metrics::from_message(message)?);
    }
    if let Some(document) = resources {
        alloc.allocated_resources = Arc::<AllocatedResources>::new(from_document(document)?);
    }
    Ok(alloc)
}
