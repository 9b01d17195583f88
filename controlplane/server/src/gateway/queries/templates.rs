//! Variables for templates, with the rights of the task that renders them.
//!
//! A variable that is missing and one that the task may not read look alike: an empty answer.

use std::collections::BTreeMap;

use controlplane_state::{Snapshot, Table, Variable, VariableKey};
use protocol_access::{Acl, Policy, VariableCapability};
use protocol_api::variables;
use protocol_model::{AllocId, Allocation, Job, JobKey, SecretText};
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::template_query::Source;

use super::super::Gateway;
use super::super::streams::OwnStream;
use super::{QueryFailure, check_session};

/// The most variables of one list.
const VARIABLES_MAX: usize = 1000;

/// Answers once the index of the source is above `known_index`. Index 0 is answered at once.
pub(super) async fn wait(
    gateway: &Gateway,
    own: &OwnStream,
    asked: v1::TemplateQuery,
) -> Result<Reply, QueryFailure> {
    let mut newest = gateway.cluster.hub().watch();
    let known_index = asked.known_index;
    loop {
        let snapshot = newest.borrow_and_update().clone();
        check_session(&snapshot, own)?;
        let found = Found::of(&snapshot, own, &asked)?;
        if found.index > known_index || known_index == 0 {
            return found.reply(gateway, &snapshot);
        }
        drop(snapshot);
        if newest.changed().await.is_err() {
            return Err((503, "the server is shutting down".to_owned()));
        }
    }
}

/// The variables of a source, as one state has them.
struct Found<'a> {
    index: u64,
    caller: Workload<'a>,
    asked: &'a Source,
}

/// A task of an allocation that is placed on the node that asks.
struct Workload<'a> {
    alloc: &'a Allocation,
    job: &'a Job,
    task: &'a str,
}

impl<'a> Found<'a> {
    fn of(
        snapshot: &'a Snapshot,
        own: &OwnStream,
        asked: &'a v1::TemplateQuery,
    ) -> Result<Self, QueryFailure> {
        let caller = Workload::of(snapshot, own, asked)?;
        let Some(source) = &asked.source else {
            return Err((400, "the question names no source".to_owned()));
        };
        // Rights come and go with policies; the task's own variables stay.
        let rights = snapshot.table_index(&[Table::AclPolicies]);
        let all = snapshot.table_index(&[Table::Variables]);
        let index = match source {
            Source::Variable(one) => {
                let row = snapshot.variable(&caller.key(one));
                row.map_or(all, |row| row.modify_index)
            }
            Source::Variables(_) => all,
        };
        Ok(Self {
            index: index.max(rights).max(1),
            caller,
            asked: source,
        })
    }

    fn reply(&self, gateway: &Gateway, snapshot: &Snapshot) -> Result<Reply, QueryFailure> {
        let acl = match gateway.cluster.access().is_on() {
            true => self.caller.rights(snapshot),
            false => Acl::management(),
        };
        let may = |key: &VariableKey, capability| {
            self.caller.owns(key) || acl.variable(&key.namespace, &key.path, capability)
        };
        let (Source::Variable(source) | Source::Variables(source)) = self.asked;
        let key = self.caller.key(source);
        let rows: Vec<&Variable> = match self.asked {
            Source::Variable(_) => {
                let row = snapshot.variable(&key).map(|row| &**row);
                let row = row.filter(|row| may(&row.key, VariableCapability::Read));
                row.into_iter().collect()
            }
            Source::Variables(_) => {
                let rows = snapshot.variables_with_prefix(&key.namespace, &key.path);
                let rows = rows.map(|row| &**row);
                let rows = rows.filter(|row| may(&row.key, VariableCapability::List));
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

impl<'a> Workload<'a> {
    fn of(
        snapshot: &'a Snapshot,
        own: &OwnStream,
        asked: &'a v1::TemplateQuery,
    ) -> Result<Self, QueryFailure> {
        let id = AllocId::from_slice(&asked.alloc_id);
        let alloc = id.and_then(|id| snapshot.alloc(id));
        let alloc = alloc.filter(|it| it.node_id == own.node && !it.client_terminal());
        let found = alloc.and_then(|alloc| {
            let job = snapshot.spec(alloc.spec)?;
            let mut groups = job.task_groups.iter();
            let group = groups.find(|it| it.name == alloc.task_group)?;
            let task = group.tasks.iter().find(|it| it.name == asked.task)?;
            let task = task.name.as_str();
            Some(Self { alloc, job, task })
        });
        found.ok_or_else(|| (404, "no such task runs on this node".to_owned()))
    }

    /// The variable, or the prefix, that a source names.
    fn key(&self, source: &v1::VariableSource) -> VariableKey {
        let namespace = match source.namespace.as_str() {
            "" => self.alloc.namespace.as_str(),
            named => named,
        };
        VariableKey::new(namespace, source.path.as_str())
    }

    /// The job; of a dispatched or periodic child its parent.
    fn job_id(&self) -> &str {
        match self.job.parent_id.as_str() {
            "" => &self.alloc.job_id,
            parent => parent,
        }
    }

    /// Whether the task reads and lists a variable without any policy.
    fn owns(&self, key: &VariableKey) -> bool {
        let (job, group) = (self.job_id(), self.alloc.task_group.as_str());
        let of_job = format!("nomad/jobs/{job}");
        let of_group = format!("{of_job}/{group}");
        let of_task = format!("{of_group}/{}", self.task);
        key.namespace == self.alloc.namespace
            && ["nomad/jobs", &of_job, &of_group, &of_task].contains(&key.path.as_str())
    }

    /// The rights of the policies that join the task.
    fn rights(&self, snapshot: &Snapshot) -> Acl {
        let joins = |wanted: &str, own: &str| wanted.is_empty() || wanted == own;
        let mut policies = Vec::new();
        for job in [self.job_id(), ""] {
            let key = JobKey::new(self.alloc.namespace.clone(), job.to_owned());
            for policy in snapshot.acl_policies_of_job(&key) {
                let is_joining = policy.job_acl.as_ref().is_some_and(|acl| {
                    joins(&acl.group, &self.alloc.task_group) && joins(&acl.task, self.task)
                });
                let parsed = Policy::parse_leniently(&policy.rules);
                if let (true, Ok(parsed)) = (is_joining, parsed) {
                    policies.push(parsed);
                }
            }
        }
        Acl::compile(&policies)
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
