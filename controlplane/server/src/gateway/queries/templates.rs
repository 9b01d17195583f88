//! Variables for templates, with the rights of the task that renders them.
//!
//! A variable that is missing and one that the task may not read look alike: an empty answer.

use std::collections::BTreeMap;

use controlplane_state::{Snapshot, Table, Variable, VariableKey};
use protocol_access::VariableCapability;
use protocol_api::variables;
use protocol_model::{AllocId, SecretText};
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::template_query::Source;

use super::super::Gateway;
use super::super::streams::OwnStream;
use super::{QueryFailure, check_session};

/// The most sources of one watching question. A node has few streams for questions.
const WATCHED_MAX: usize = 2500;
/// The most variables of one list.
const VARIABLES_MAX: usize = 1000;

/// Answers with the variables of a source.
pub(super) fn read(
    gateway: &Gateway,
    own: &OwnStream,
    asked: &v1::TemplateQuery,
    snapshot: &Snapshot,
) -> Result<Reply, QueryFailure> {
    Found::of(snapshot, own, asked)?.reply(gateway, snapshot, own)
}

/// Answers once the index of a source is above the known one, with all of which that is so. Sources
/// of tasks that are over stay silent.
pub(super) async fn watch(
    gateway: &Gateway,
    own: &OwnStream,
    watched: v1::TemplateWatch,
) -> Result<Reply, QueryFailure> {
    let found = watched.queries.len();
    if found > WATCHED_MAX {
        let message = format!("{found} sources: at most {WATCHED_MAX} are watched by a question");
        return Err((400, message));
    }
    let mut newest = gateway.cluster.hub().watch();
    let mut seen = None;
    loop {
        let snapshot = newest.borrow_and_update().clone();
        check_session(&snapshot, own)?;
        // Most states change neither variables nor rights.
        let index = snapshot.table_index(&[Table::AclPolicies, Table::Variables]);
        if seen.replace(index) != Some(index) {
            let positions = moved(&snapshot, own, &watched.queries);
            if !positions.is_empty() {
                return Ok(Reply::Moved(v1::TemplateMoved { positions }));
            }
        }
        drop(snapshot);
        if newest.changed().await.is_err() {
            return Err((503, "the server is shutting down".to_owned()));
        }
    }
}

fn moved(snapshot: &Snapshot, own: &OwnStream, queries: &[v1::TemplateQuery]) -> Vec<u32> {
    let has_moved = |asked: &v1::TemplateQuery| {
        let found = Found::of(snapshot, own, asked);
        found.is_ok_and(|found| found.index > asked.known_index)
    };
    let positions = (0..).zip(queries);
    let moved = positions.filter(|(_, asked)| has_moved(asked));
    moved.map(|(position, _)| position).collect()
}

/// The variables of a source, as one state has them.
struct Found<'a> {
    index: u64,
    /// The task that asks.
    place: (AllocId, &'a str),
    /// The variable, or the prefix, that the source names.
    key: VariableKey,
    asked: &'a Source,
}

fn no_such_task() -> QueryFailure {
    (404, "no such task runs on this node".to_owned())
}

impl<'a> Found<'a> {
    fn of(
        snapshot: &Snapshot,
        own: &OwnStream,
        asked: &'a v1::TemplateQuery,
    ) -> Result<Self, QueryFailure> {
        let alloc = AllocId::from_slice(&asked.alloc_id);
        let alloc = alloc.and_then(|id| snapshot.alloc(id));
        let alloc = alloc.filter(|it| it.node_id == own.node && !it.client_terminal());
        let alloc = alloc.ok_or_else(no_such_task)?;
        let Some(source) = &asked.source else {
            return Err((400, "the question names no source".to_owned()));
        };
        let (Source::Variable(named) | Source::Variables(named)) = source;
        let namespace = match named.namespace.as_str() {
            "" => alloc.namespace.as_str(),
            namespace => namespace,
        };
        let key = VariableKey::new(namespace, named.path.as_str());
        // Rights come and go with policies; the task's own variables stay.
        let rights = snapshot.table_index(&[Table::AclPolicies]);
        let all = snapshot.table_index(&[Table::Variables]);
        let index = match source {
            Source::Variable(_) => {
                let row = snapshot.variable(&key);
                row.map_or(all, |row| row.modify_index)
            }
            Source::Variables(_) => all,
        };
        Ok(Self {
            index: index.max(rights).max(1),
            place: (alloc.id, &asked.task),
            key,
            asked: source,
        })
    }

    fn reply(
        &self,
        gateway: &Gateway,
        snapshot: &Snapshot,
        own: &OwnStream,
    ) -> Result<Reply, QueryFailure> {
        let access = gateway.cluster.access();
        let asker = access.workload_of_node(snapshot, own.node, self.place);
        let acl = asker.ok_or_else(no_such_task)?.acl;
        let may = |row: &Variable, capability| {
            let VariableKey { namespace, path } = &row.key;
            acl.variable(namespace, path, capability)
        };
        let key = &self.key;
        let rows: Vec<&Variable> = match self.asked {
            Source::Variable(_) => {
                let row = snapshot.variable(key).map(|row| &**row);
                let row = row.filter(|row| may(row, VariableCapability::Read));
                row.into_iter().collect()
            }
            Source::Variables(_) => {
                let rows = snapshot.variables_with_prefix(&key.namespace, &key.path);
                let rows = rows.map(|row| &**row);
                let rows = rows.filter(|row| may(row, VariableCapability::List));
                rows.take(VARIABLES_MAX).collect()
            }
        };
        let with_items = matches!(self.asked, Source::Variable(_));
        let shown = rows.into_iter().map(|row| shown(gateway, row, with_items));
        Ok(Reply::Template(v1::TemplateReply {
            index: self.index,
            variables: shown.collect::<Result<_, _>>()?,
        }))
    }
}

/// A variable as the API shows it; one of a list without its items.
fn shown(
    gateway: &Gateway,
    row: &Variable,
    with_items: bool,
) -> Result<v1::TemplateVariable, QueryFailure> {
    let items = with_items.then(|| {
        let opened = gateway.keyring.open_variable(&row.key, &row.sealed);
        let opened = opened.map_err(|error| (503, error.to_string()))?;
        let items: BTreeMap<String, SecretText> =
            serde_json::from_slice(&opened).map_err(|_| {
                (
                    500,
                    format!("the items of variable {} are damaged", row.key),
                )
            })?;
        Ok(items)
    });
    let variable = variables::Variable {
        namespace: row.key.namespace.clone(),
        path: row.key.path.clone(),
        create_index: row.create_index,
        create_time: row.create_time,
        modify_index: row.modify_index,
        modify_time: row.modify_time,
        items: items.transpose()?,
        lock: None,
    };
    let json = serde_json::to_vec(&variable).map_err(|error| (500, error.to_string()))?;
    Ok(v1::TemplateVariable {
        namespace: variable.namespace,
        path: variable.path,
        json: json.into(),
    })
}
