//! `drover acl role`.

use clap::{Args, Subcommand};
use protocol_api::acl::{
    CreateRole, DeleteRole, ListRoles, PolicyLink, ReadRole, ReadRoleByName, Role, RoleRequest,
    UpdateRole,
};
use protocol_client::Query;

use super::Json;
use crate::failure::Failure;
use crate::render::acl::role;
use crate::session::Session;

/// The hint where a role is unknown.
const WHOLE_ID: &str = "`drover acl role list` shows ids and names; the whole id is needed, or the \
                        name with -by-name";

#[derive(Subcommand, Debug)]
pub(crate) enum RoleCommand {
    /// Create a role
    Create(Create),
    /// Delete a role
    Delete(Id),
    /// Show a role
    Info(Info),
    /// List roles; without a management token, one's own
    List(Json),
    /// Change a role
    Update(Update),
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// Its name, unique
    #[arg(long)]
    name: String,
    /// A description for people
    #[arg(long, default_value = "")]
    description: String,
    /// A policy; may be repeated
    #[arg(long, value_name = "NAME", required = true)]
    policy: Vec<String>,
    #[command(flatten)]
    json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Id {
    /// The role's id
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The role's id, or its name with -by-name
    #[arg(value_name = "ROLE")]
    role: String,
    /// ROLE is a name
    #[arg(long)]
    by_name: bool,
    #[command(flatten)]
    json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Update {
    /// The role's id
    #[arg(value_name = "ID")]
    id: String,
    /// Another name
    #[arg(long)]
    name: Option<String>,
    /// Another description
    #[arg(long)]
    description: Option<String>,
    /// One more policy; may be repeated
    #[arg(long, value_name = "NAME")]
    policy: Vec<String>,
    /// Take the flags for the whole role: what they do not name is emptied
    #[arg(long)]
    no_merge: bool,
    #[command(flatten)]
    json: Json,
}

fn links(names: Vec<String>) -> Vec<PolicyLink> {
    let links = names.into_iter().map(|name| PolicyLink { name });
    links.collect()
}

impl RoleCommand {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let query = Query::new();
        match self {
            Self::Create(create) => {
                let request = RoleRequest {
                    id: String::new(),
                    name: create.name,
                    description: create.description,
                    policies: links(create.policy),
                };
                let made = client.call_with(&CreateRole, &query, &request).await?;
                create.json.print(session, &made.value, role::one)
            }
            Self::Delete(Id { id }) => {
                client.call(&DeleteRole { id: &id }, &query).await?;
                let text = format!("ACL role {id} successfully deleted");
                session.out.data(&text)
            }
            Self::Info(info) => info.run(session).await,
            Self::List(json) => {
                let render = |all: Vec<Role>| role::list(&all);
                let list = (&ListRoles, &query);
                session.show(&client, list, json.form(), render).await
            }
            Self::Update(update) => update.run(session).await,
        }
    }
}

impl Info {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let query = Query::new();
        let render = |it: Role| role::one(&it);
        let form = self.json.form();
        if self.by_name {
            let read = (&ReadRoleByName { name: &self.role }, &query);
            let shown = session.show(&client, read, form, render).await;
            return shown.map_err(|failure| failure.naming(&self.role, WHOLE_ID));
        }
        let read = (&ReadRole { id: &self.role }, &query);
        let shown = session.show(&client, read, form, render).await;
        shown.map_err(|failure| failure.naming(&self.role, WHOLE_ID))
    }
}

impl Update {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let query = Query::new();
        let id = self.id.as_str();
        let request = if self.no_merge {
            RoleRequest {
                id: self.id.clone(),
                name: self.name.unwrap_or_default(),
                description: self.description.unwrap_or_default(),
                policies: links(self.policy),
            }
        } else {
            let known = client.call(&ReadRole { id }, &query).await;
            let known = known.map_err(|error| Failure::from(error).naming(id, WHOLE_ID))?;
            let known = known.value;
            let mut policies = known.policies;
            for link in links(self.policy) {
                if !policies.contains(&link) {
                    policies.push(link);
                }
            }
            RoleRequest {
                id: known.id,
                name: self.name.unwrap_or(known.name),
                description: self.description.unwrap_or(known.description),
                policies,
            }
        };
        let changed = client
            .call_with(&UpdateRole { id }, &query, &request)
            .await?;
        self.json.print(session, &changed.value, role::one)
    }
}
