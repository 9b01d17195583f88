//! `/v1/acl/binding-rules` and `/v1/acl/binding-rule`.

use controlplane_state::command::AclBindingRules;
use controlplane_state::{AclBindingRule, BindType, Command, Table};
use protocol_access::binding::check_binding_rule;
use protocol_api::acl::{
    BindingRuleRequest, CreateBindingRule, DeleteBindingRule, ListBindingRules, ReadBindingRule,
    UpdateBindingRule,
};
use protocol_model::{BIND_MANAGEMENT, BIND_POLICY, BindingRule, BindingRuleStub};
use uuid::Uuid;

use super::written::{apply, removed_meanwhile};
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    ListBindingRules => list,
    CreateBindingRule => create,
    ReadBindingRule => read,
    UpdateBindingRule => update,
    DeleteBindingRule => remove,
];

async fn list(ask: &Ask) -> Answered {
    ask.read(&[Table::AclBindingRules], |snapshot| {
        let rules = snapshot.binding_rules().map(|row| shown(row));
        let stubs = rules.map(|rule| BindingRuleStub::from(&rule));
        Ok(stubs.collect::<Vec<_>>())
    })
    .await
}

async fn read(ask: &Ask) -> Answered {
    let id = ask.parameter("id");
    ask.read(&[Table::AclBindingRules], |snapshot| {
        let row = snapshot.binding_rule(id);
        let row = row.ok_or_else(|| HttpError::not_found("ACL binding rule not found"))?;
        Ok(shown(row))
    })
    .await
}

async fn create(ask: &Ask) -> Answered {
    let request: BindingRuleRequest = ask.json()?;
    // As in Nomad, a body with an id changes the rule that has it.
    if !request.id.is_empty() {
        return change(ask, request).await;
    }
    let fresh = BindingRule {
        id: Uuid::new_v4().to_string(),
        ..BindingRule::default()
    };
    write(ask, merged(fresh, request), |rules| {
        AclBindingRules::Create { rules }
    })
    .await
}

async fn update(ask: &Ask) -> Answered {
    let mut request: BindingRuleRequest = ask.json()?;
    let id = ask.parameter("id");
    if request.id.is_empty() {
        id.clone_into(&mut request.id);
    }
    if request.id != id {
        return Err(HttpError::bad_request(
            "ACL binding rule ID does not match request path",
        ));
    }
    change(ask, request).await
}

async fn change(ask: &Ask, request: BindingRuleRequest) -> Answered {
    let snapshot = ask.consistent().await?;
    let row = snapshot.binding_rule(&request.id);
    let row = row.ok_or_else(|| HttpError::not_found("ACL binding rule not found"))?;
    write(ask, merged(shown(row), request), |rules| {
        AclBindingRules::Update { rules }
    })
    .await
}

/// The rule with the fields that the request names.
fn merged(rule: BindingRule, request: BindingRuleRequest) -> BindingRule {
    let BindingRuleRequest {
        id: _,
        description,
        auth_method,
        selector,
        bind_type,
        bind_name,
    } = request;
    BindingRule {
        description: description.unwrap_or(rule.description),
        auth_method: auth_method.unwrap_or(rule.auth_method),
        selector: selector.unwrap_or(rule.selector),
        bind_type: bind_type.unwrap_or(rule.bind_type),
        bind_name: bind_name.unwrap_or(rule.bind_name),
        ..rule
    }
}

async fn write(
    ask: &Ask,
    rule: BindingRule,
    command: impl FnOnce(Vec<AclBindingRule>) -> AclBindingRules,
) -> Answered {
    let faults = check_binding_rule(&rule);
    if !faults.is_empty() {
        let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
        return Err(HttpError::bad_request(format!(
            "binding rule 0 invalid: {}",
            texts.join("; ")
        )));
    }
    let id = rule.id.clone();
    let applied = apply(ask, Command::from(command(vec![row(rule)]))).await?;
    let row = applied.snapshot.binding_rule(&id);
    let row = row.ok_or_else(|| removed_meanwhile("binding rule"))?;
    ask.answer(&shown(row), applied.index)
}

async fn remove(ask: &Ask) -> Answered {
    let ids = vec![ask.parameter("id").to_owned()];
    let applied = apply(ask, AclBindingRules::Delete { ids }.into()).await?;
    ask.done(applied.index)
}

/// A checked rule as the state keeps it.
fn row(rule: BindingRule) -> AclBindingRule {
    AclBindingRule {
        id: rule.id,
        description: rule.description,
        auth_method: rule.auth_method,
        selector: rule.selector,
        bind_type: match rule.bind_type.as_str() {
            BIND_MANAGEMENT => BindType::Management,
            BIND_POLICY => BindType::Policy,
            _ => BindType::Role,
        },
        bind_name: rule.bind_name,
        ..AclBindingRule::default()
    }
}

pub(super) fn shown(row: &AclBindingRule) -> BindingRule {
    BindingRule {
        id: row.id.clone(),
        description: row.description.clone(),
        auth_method: row.auth_method.clone(),
        selector: row.selector.clone(),
        bind_type: row.bind_type.as_str().to_owned(),
        bind_name: row.bind_name.clone(),
        create_time: row.create_time,
        modify_time: row.modify_time,
        create_index: row.create_index,
        modify_index: row.modify_index,
    }
}
