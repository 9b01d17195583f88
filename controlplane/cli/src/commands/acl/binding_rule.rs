//! `drover acl binding-rule`.

use clap::{Args, Subcommand};
use protocol_api::acl::{
    BindingRuleRequest, CreateBindingRule, DeleteBindingRule, ListBindingRules, ReadBindingRule,
    UpdateBindingRule,
};
use protocol_client::Query;
use protocol_model::{BindingRule, BindingRuleStub};

use super::Json;
use crate::failure::Failure;
use crate::render::acl::binding_rule;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum BindingRuleCommand {
    /// Create a binding rule
    Create(Create),
    /// Delete a binding rule
    Delete(Id),
    /// Show a binding rule
    Info(Info),
    /// List binding rules
    List(Json),
    /// Change a binding rule
    Update(Update),
}

/// The fields of a binding rule.
#[derive(Args, Debug)]
struct Fields {
    /// A description for people
    #[arg(long)]
    description: Option<String>,
    /// An expression over value.NAME and list.NAME; without it the rule is for every login
    #[arg(long, value_name = "EXPRESSION")]
    selector: Option<String>,
    /// `role`, `policy` or `management`
    #[arg(long, value_name = "TYPE")]
    bind_type: Option<String>,
    /// The role or policy; ${value.NAME} is filled in
    #[arg(long, value_name = "NAME")]
    bind_name: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// The auth method whose logins it is for
    #[arg(long, value_name = "NAME")]
    auth_method: String,
    #[command(flatten)]
    fields: Fields,
    #[command(flatten)]
    json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Id {
    /// The rule's id
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The rule's id
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Update {
    /// The rule's id
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    fields: Fields,
    #[command(flatten)]
    json: Json,
}

impl Fields {
    fn request(self, id: &str, auth_method: Option<String>) -> BindingRuleRequest {
        BindingRuleRequest {
            id: id.to_owned(),
            description: self.description,
            auth_method,
            selector: self.selector,
            bind_type: self.bind_type,
            bind_name: self.bind_name,
        }
    }
}

impl BindingRuleCommand {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let query = Query::new();
        match self {
            Self::Create(Create {
                auth_method,
                fields,
                json,
            }) => {
                let request = fields.request("", Some(auth_method));
                let made = client.call_with(&CreateBindingRule, &query, &request);
                json.print(session, &made.await?.value, binding_rule::one)
            }
            Self::Delete(Id { id }) => {
                client.call(&DeleteBindingRule { id: &id }, &query).await?;
                let text = format!("ACL binding rule {id} successfully deleted");
                session.out.data(&text)
            }
            Self::Info(Info { id, json }) => {
                let read = (&ReadBindingRule { id: &id }, &query);
                let render = |it: BindingRule| binding_rule::one(&it);
                let shown = session.show(&client, read, json.form(), render).await;
                let hint = "`drover acl binding-rule list` shows the ids; the whole id is needed";
                shown.map_err(|failure| failure.naming(&id, hint))
            }
            Self::List(json) => {
                let render = |all: Vec<BindingRuleStub>| binding_rule::list(&all);
                let list = (&ListBindingRules, &query);
                session.show(&client, list, json.form(), render).await
            }
            Self::Update(Update { id, fields, json }) => {
                let update = UpdateBindingRule { id: &id };
                let request = fields.request(&id, None);
                let changed = client.call_with(&update, &query, &request);
                json.print(session, &changed.await?.value, binding_rule::one)
            }
        }
    }
}
