//! `/v1/acl/policies` and `/v1/acl/policy/:name`.

use std::collections::BTreeSet;

use controlplane_state::command::AclPolicies;
use controlplane_state::{AclPolicy, Snapshot, Table};
use protocol_api::acl::{
    DeletePolicy, JobAcl, ListPolicies, OwnPolicies, Policy, PolicyRequest, PolicyStub, ReadPolicy,
    UpdatePolicy,
};

use super::written::{apply, hash, removed_meanwhile};
use crate::access::Caller;
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

/// The policy of callers without a token, which all may read.
const ANONYMOUS: &str = "anonymous";
/// The tables that say which policies a caller has.
const TABLES: [Table; 3] = [Table::AclPolicies, Table::AclTokens, Table::AclRoles];

pub(super) const ROUTES: Routes = routes![
    ListPolicies => list,
    OwnPolicies => own,
    ReadPolicy => read,
    UpdatePolicy => update,
    DeletePolicy => remove,
];

/// The policies that a caller sees.
enum Seen {
    All,
    These(BTreeSet<String>),
}

impl Seen {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(name),
        }
    }
}

/// The policies of the caller, directly or by a role; all of them for management.
fn owned(ask: &Ask, snapshot: &Snapshot) -> Seen {
    if ask.acl().is_management() {
        return Seen::All;
    }
    let accessor_id = match ask.caller() {
        Caller::Token { accessor_id, .. } => accessor_id,
        Caller::Workload(workload) => {
            return Seen::These(workload.policies(snapshot).into_iter().collect());
        }
        Caller::Open | Caller::Anonymous { .. } => {
            return Seen::These(BTreeSet::from([ANONYMOUS.to_owned()]));
        }
    };
    let mut names = BTreeSet::new();
    if let Some(token) = snapshot.acl_token(&accessor_id) {
        names.extend(token.policies.iter().cloned());
        for role in token.roles.iter().filter_map(|id| snapshot.acl_role(id)) {
            names.extend(role.policies.iter().cloned());
        }
    }
    Seen::These(names)
}

/// The policies that the caller may read.
fn readable(ask: &Ask, snapshot: &Snapshot) -> Seen {
    let mut seen = owned(ask, snapshot);
    if let Seen::These(names) = &mut seen {
        names.insert(ANONYMOUS.to_owned());
    }
    seen
}

async fn list(ask: &Ask) -> Answered {
    let prefix = ask.query.get("prefix").unwrap_or("");
    ask.read(&TABLES, |snapshot| {
        let seen = readable(ask, snapshot);
        let shown =
            |it: &&std::sync::Arc<AclPolicy>| it.name.starts_with(prefix) && seen.has(&it.name);
        let policies = snapshot.acl_policies().filter(shown);
        Ok(policies.map(|it| stub(it)).collect::<Vec<_>>())
    })
    .await
}

async fn own(ask: &Ask) -> Answered {
    ask.read(&TABLES, |snapshot| {
        let seen = owned(ask, snapshot);
        let policies = snapshot.acl_policies().filter(|it| seen.has(&it.name));
        Ok(policies.map(|it| stub(it)).collect::<Vec<_>>())
    })
    .await
}

async fn read(ask: &Ask) -> Answered {
    let name = ask.parameter("name");
    ask.read(&TABLES, |snapshot| {
        if !readable(ask, snapshot).has(name) {
            return Err(HttpError::permission_denied());
        }
        let found = snapshot.acl_policy(name);
        let found = found.ok_or_else(|| HttpError::not_found("ACL policy not found"))?;
        Ok(shown(found))
    })
    .await
}

async fn update(ask: &Ask) -> Answered {
    let request: PolicyRequest = ask.json()?;
    let name = ask.parameter("name");
    let policy = checked(request, name)?;
    let command = AclPolicies::Upsert {
        policies: vec![policy],
    };
    let applied = apply(ask, command.into()).await?;
    let found = applied.snapshot.acl_policy(name);
    let found = found.ok_or_else(|| removed_meanwhile("policy"))?;
    ask.answer(&shown(found), applied.index)
}

/// The policy that a body describes.
///
/// # Errors
/// 400: every mistake of its rules.
fn checked(request: PolicyRequest, path: &str) -> Result<AclPolicy, HttpError> {
    let PolicyRequest {
        name,
        description,
        rules,
        job_acl,
    } = request;
    if !name.is_empty() && name != path {
        return Err(HttpError::bad_request(
            "ACL policy name does not match request path",
        ));
    }
    if let Err(errors) = protocol_access::Policy::parse(&rules) {
        return Err(HttpError::bad_request(errors.to_string()));
    }
    let job_acl = job_acl.map(|it| controlplane_state::JobAcl {
        namespace: it.namespace,
        job_id: it.job_id,
        group: it.group,
        task: it.task,
    });
    Ok(AclPolicy {
        name: path.to_owned(),
        description,
        rules,
        job_acl,
        ..AclPolicy::default()
    })
}

async fn remove(ask: &Ask) -> Answered {
    let names = vec![ask.parameter("name").to_owned()];
    let applied = apply(ask, AclPolicies::Delete { names }.into()).await?;
    ask.done(applied.index)
}

fn job_acl(policy: &AclPolicy) -> Option<JobAcl> {
    let it = policy.job_acl.as_ref()?;
    Some(JobAcl {
        namespace: it.namespace.clone(),
        job_id: it.job_id.clone(),
        group: it.group.clone(),
        task: it.task.clone(),
    })
}

fn hash_of(policy: &AclPolicy) -> String {
    hash(&(
        &policy.name,
        &policy.description,
        &policy.rules,
        &policy.job_acl,
    ))
}

fn shown(policy: &AclPolicy) -> Policy {
    Policy {
        name: policy.name.clone(),
        description: policy.description.clone(),
        rules: policy.rules.clone(),
        job_acl: job_acl(policy),
        hash: hash_of(policy),
        create_index: policy.create_index,
        modify_index: policy.modify_index,
    }
}

fn stub(policy: &AclPolicy) -> PolicyStub {
    PolicyStub {
        name: policy.name.clone(),
        description: policy.description.clone(),
        job_acl: job_acl(policy),
        hash: hash_of(policy),
        create_index: policy.create_index,
        modify_index: policy.modify_index,
    }
}
