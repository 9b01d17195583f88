//! `/v1/acl/whoami`: the caller of a request, as this server sees it.

use controlplane_state::{AclToken, AclTokenKind, Snapshot, Table};
use protocol_api::acl::{ReadWhoAmI, RoleLink, Via, WhoAmI, WhoAmIToken};
use serde_json::Value;
use tokio::time::Instant;

use crate::access::Caller;
use crate::http::ask::Ask;
use crate::http::error::Answered;
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![ReadWhoAmI => whoami];

async fn whoami(ask: &Ask) -> Answered {
    let budgets = ask.api.cluster.access().budgets();
    let budgets = budgets.shown(&ask.caller(), Instant::now());
    ask.read(&[Table::AclTokens, Table::AclRoles], |snapshot| {
        let mut answer = WhoAmI {
            kind: "open".to_owned(),
            address: ask.address().to_string(),
            via: via(ask),
            budgets: budgets.clone(),
            rejected: ask.rejected().unwrap_or_default().to_owned(),
            ..WhoAmI::default()
        };
        let mut claims = None;
        match ask.caller() {
            Caller::Open => claims = open_claims(ask, snapshot, &mut answer),
            Caller::Anonymous { .. } => "anonymous".clone_into(&mut answer.kind),
            Caller::Token { accessor_id, .. } => {
                "token".clone_into(&mut answer.kind);
                let token = snapshot.acl_token(&accessor_id);
                answer.token = token.map(|token| shown(snapshot, token));
            }
            Caller::Workload(_) => claims = open_claims(ask, snapshot, &mut answer),
        }
        answer.claims = claims;
        Ok(answer)
    })
    .await
}

fn via(ask: &Ask) -> Via {
    let node = ask.via.as_ref().map(|via| via.node.to_string());
    let task = ask.via.as_ref().and_then(|via| via.task.clone());
    let task = task.map(|(alloc, task)| (alloc.to_string(), task.to_string()));
    let (alloc, task) = task.unwrap_or_default();
    Via {
        server: ask.api.config.name.clone(),
        node: node.unwrap_or_default(),
        alloc,
        task,
    }
}

/// The claims of a workload token. It is verified also where access control is off.
fn open_claims(ask: &Ask, snapshot: &Snapshot, answer: &mut WhoAmI) -> Option<Value> {
    let shown = ask.gate.identity()?;
    let (access, now) = (ask.api.cluster.access(), ask.api.cluster.wall_clock());
    match access.workload(snapshot, &shown, now) {
        Ok((verified, _)) => {
            "workload".clone_into(&mut answer.kind);
            serde_json::to_value(&verified.claims).ok()
        }
        Err(why) => {
            why.name().clone_into(&mut answer.rejected);
            None
        }
    }
}

fn shown(snapshot: &Snapshot, token: &AclToken) -> WhoAmIToken {
    let link = |id: &String| {
        let role = snapshot.acl_role(id)?;
        Some(RoleLink {
            id: role.id.clone(),
            name: role.name.clone(),
        })
    };
    WhoAmIToken {
        accessor_id: token.accessor_id.clone(),
        name: token.name.clone(),
        kind: match token.kind {
            AclTokenKind::Management => "management".to_owned(),
            AclTokenKind::Client => "client".to_owned(),
        },
        policies: token.policies.clone(),
        roles: token.roles.iter().filter_map(link).collect(),
        global: token.global,
        expiration_time: token.expiration,
    }
}
