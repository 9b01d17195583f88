//! `/v1/nodes` and `/v1/node/:id`: hosts, what runs on them, and the operator's switches.

use std::collections::BTreeSet;
use std::sync::Arc;

use controlplane_state::command::NodeDrainSet;
use controlplane_state::{Command, Outcome, POOL_ALL, Snapshot, Table};
use protocol_access::NamespaceCapability;
use protocol_api::nodes::{
    DrainNode, DrainRequest, EligibilityRequest, EvaluateNode, ForeignAllocations, ListNodes,
    NodeAllocations, NodeChanged, PurgeNode, ReadNode, ReleaseForeign, SetEligibility,
};
use protocol_model::{
    Allocation, Eligibility, EvalTrigger, Evaluation, JobKey, Node, NodeId, NodeListStub, UnixNanos,
};
use protocol_wire::v1;
use protocol_wire::v1::node_request::Request;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::filter::Filter;
use super::job_register::evaluation;
use super::page::{ByIndex, page_where};
use super::route::{Routes, routes};
use super::shown::{AllocShown, NodeShown};
use super::{client_alloc, detail, lookup};

/// Evaluations that one request may make: one per job with something on the node.
const EVALS_MAX: usize = 4096;
/// The keys and values of a drain's notes, together: they are in every answer that shows the node.
const DRAIN_META_BYTES_MAX: usize = 16 * 1024;

pub(super) const ROUTES: Routes = routes![
    ListNodes => list,
    ReadNode => read,
    NodeAllocations => allocations,
    SetEligibility => eligibility,
    DrainNode => drain,
    EvaluateNode => evaluate,
    PurgeNode => purge,
    ForeignAllocations => foreign_allocations,
    ReleaseForeign => release_foreign,
];

async fn list(ask: &Ask) -> Answered {
    let tables = [Table::Nodes];
    let snapshot = ask.snapshot(&tables).await?;
    list_in(ask, &snapshot, &tables, None)
}

/// The list of nodes in `snapshot`, which `tables` were waited for in: those of one pool where it
/// is named. The pool `all` has all of them.
pub(super) fn list_in(
    ask: &Ask,
    snapshot: &Snapshot,
    tables: &[Table],
    pool: Option<&str>,
) -> Answered {
    let parts = ListParts {
        resources: ask.query.flag("resources")?,
        attributes: match ask.query.flag("os")? {
            true => Attributes::Os,
            false => Attributes::Omit,
        },
    };
    let prefix = lookup::prefix(&ask.query)?;
    let filter = Filter::of(&ask.query)?;
    let is_in = |node: &Node| pool.is_none_or(|pool| pool == POOL_ALL || pool == node.node_pool);
    let key = |node: &Arc<Node>| (ByIndex(node.create_index, node.id.0), Arc::clone(node));
    // All that a list can show can be asked for, and every attribute.
    let whole = ListParts {
        resources: true,
        attributes: Attributes::All,
    };
    let keep = |node: &Arc<Node>| match &filter {
        _ if !is_in(node) => Ok(false),
        None => Ok(true),
        Some(filter) => filter.keeps(&whole.stub(node)),
    };
    let page = match prefix {
        None => {
            let all = snapshot.nodes().map(|record| key(&record.node));
            page_where(&ask.query, all, keep)?
        }
        Some(prefix) => {
            let found = snapshot.nodes_with_prefix(prefix).map(key);
            page_where(&ask.query, found, keep)?
        }
    };
    let stubs: Vec<NodeListStub> = page.items.iter().map(|node| parts.stub(node)).collect();
    ask.answer_page(
        &stubs,
        snapshot.table_index(tables),
        page.next_token.as_deref(),
    )
}

/// What a list shows of each node.
#[derive(Clone, Copy, Debug)]
struct ListParts {
    resources: bool,
    attributes: Attributes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attributes {
    Omit,
    /// Those that say which system it is.
    Os,
    All,
}

impl ListParts {
    fn stub(self, node: &Node) -> NodeListStub {
        let mut stub = node.stub();
        if self.resources {
            stub.node_resources = Some(node.node_resources.clone());
            stub.reserved_resources = Some(node.reserved_resources.clone());
        }
        let is_os = |name: &str| matches!(name, "os.name" | "os.version");
        stub.attributes = match self.attributes {
            Attributes::Omit => stub.attributes,
            Attributes::All => Some(node.attributes.clone()),
            Attributes::Os => {
                let all = node.attributes.iter().filter(|(name, _)| is_os(name));
                Some(
                    all.map(|(name, value)| (name.clone(), value.clone()))
                        .collect(),
                )
            }
        };
        stub
    }
}

/// The node that the path names.
fn id(ask: &Ask) -> Result<NodeId, HttpError> {
    lookup::id("a node", ask.parameter("id"))
}

async fn read(ask: &Ask) -> Answered {
    let id = id(ask)?;
    ask.read(&[Table::Nodes], |snapshot| {
        let record = snapshot.node(id);
        let record = record.ok_or_else(|| HttpError::not_found("node not found"))?;
        // The object's own index moves with complete reports only.
        let mut node = Node::clone(&record.node);
        node.last_alloc_update_index = record.reported_index;
        Ok(NodeShown::new(Arc::new(node)))
    })
    .await
}

async fn foreign_allocations(ask: &Ask) -> Answered {
    let request = Request::Foreign(v1::ForeignRequest {});
    client_alloc::of_node(ask, id(ask)?, request).await
}

async fn release_foreign(ask: &Ask) -> Answered {
    let request = Request::ReleaseForeign(v1::ReleaseForeignRequest {});
    client_alloc::of_node(ask, id(ask)?, request).await
}

/// A node's allocations, whole. Clients expect full objects here, unlike everywhere else.
async fn allocations(ask: &Ask) -> Answered {
    let id = id(ask)?;
    let snapshot = ask.snapshot(&[Table::Allocs]).await?;
    let whole = |found: &Arc<Allocation>| {
        let mut alloc = Allocation::clone(found);
        alloc.job = snapshot.job_of_alloc(found);
        Arc::new(alloc)
    };
    let allocs = snapshot.allocs_on_node(id);
    let seen = allocs.filter(|alloc| ask.may(&alloc.namespace, NamespaceCapability::ReadJob));
    let mut allocs: Vec<_> = seen.map(whole).collect();
    let detail = detail::merge_all(&ask.api, &mut allocs).await;
    let shown: Vec<_> = allocs.into_iter().map(AllocShown::new).collect();
    let mut response = ask.answer(&shown, snapshot.table_index(&[Table::Allocs]))?;
    detail.tell(&mut response);
    Ok(response)
}

async fn eligibility(ask: &Ask) -> Answered {
    let id = id(ask)?;
    let request: EligibilityRequest = ask.json()?;
    let eligibility = match request.eligibility.as_str() {
        "eligible" => Eligibility::Eligible,
        "ineligible" => Eligibility::Ineligible,
        other => {
            return Err(HttpError::bad_request(format!(
                "invalid scheduling eligibility {other:?}: it is eligible or ineligible"
            )));
        }
    };
    change(
        ask,
        Command::NodeEligibility {
            node: id,
            eligibility,
        },
    )
    .await
}

/// Begins, changes or ends a drain.
async fn drain(ask: &Ask) -> Answered {
    let node = id(ask)?;
    let DrainRequest {
        drain_spec,
        mark_eligible,
        meta,
    } = ask.json()?;
    let pairs = meta.iter().flatten();
    let bytes: usize = pairs.map(|(key, value)| key.len() + value.len()).sum();
    if bytes > DRAIN_META_BYTES_MAX {
        return Err(HttpError::bad_request(format!(
            "the drain's Meta has {bytes} bytes, at most {DRAIN_META_BYTES_MAX} are kept"
        )));
    }
    let accessor_id = ask.accessor_id();
    let set = NodeDrainSet {
        node,
        drain: drain_spec,
        eligibility_after: match mark_eligible {
            true => Eligibility::Eligible,
            false => Eligibility::Ineligible,
        },
        accessor_id,
        meta,
    };
    change(ask, Command::NodeDrainSet(set)).await
}

async fn purge(ask: &Ask) -> Answered {
    let id = id(ask)?;
    change(ask, Command::NodePurge { node: id }).await
}

/// Looks again at every job that has something on the node, or runs on every node of its kind.
async fn evaluate(ask: &Ask) -> Answered {
    let id = id(ask)?;
    let snapshot = ask.consistent().await?;
    let evals = evaluations(&snapshot, id, ask.now())?;
    if evals.is_empty() {
        let index = snapshot.index();
        let nothing = NodeChanged {
            eval_ids: Vec::new(),
            eval_create_index: 0,
            node_modify_index: index,
            index,
        };
        return ask.answer(&nothing, index);
    }
    change(ask, Command::EvalsUpsert { evals }).await
}

fn evaluations(
    snapshot: &Snapshot,
    id: NodeId,
    now: UnixNanos,
) -> Result<Vec<Evaluation>, HttpError> {
    let record = snapshot
        .node(id)
        .ok_or_else(|| HttpError::not_found("node not found"))?;
    let mut keys: BTreeSet<JobKey> = snapshot
        .allocs_on_node(id)
        .map(|alloc| alloc.job_key())
        .collect();
    let everywhere = snapshot.jobs().filter(|(_, job)| {
        job.job_type.is_per_node() && !job.stop && controlplane_state::covers(job, &record.node)
    });
    keys.extend(everywhere.map(|(key, _)| key.clone()));
    if keys.len() > EVALS_MAX {
        return Err(HttpError::bad_request(format!(
            "{} jobs would be evaluated at once, at most {EVALS_MAX} are",
            keys.len()
        )));
    }
    let evals = keys.iter().filter_map(|key| snapshot.job(key)).map(|job| {
        let mut eval = evaluation(job, 0, EvalTrigger::NodeUpdate, now);
        eval.node_id = Some(id);
        eval.node_modify_index = record.node.modify_index;
        eval.job_modify_index = job.job_modify_index;
        eval
    });
    Ok(evals.collect())
}

async fn change(ask: &Ask, command: Command) -> Answered {
    let changed = ask.change(command).await?;
    let eval_ids = match changed.outcome {
        Outcome::Evaluated(ids) => ids,
        _ => Vec::new(),
    };
    let index = changed.index;
    let eval_create_index = if eval_ids.is_empty() { 0 } else { index };
    ask.answer(
        &NodeChanged {
            eval_ids,
            eval_create_index,
            node_modify_index: index,
            index,
        },
        index,
    )
}
