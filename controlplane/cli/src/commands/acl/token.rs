//! `drover acl token`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use protocol_api::acl::{
    CreateToken, DeleteToken, ListTokens, OwnToken, ReadToken, RoleLink, Token, TokenRequest,
    TokenStub, UpdateToken,
};
use protocol_client::Query;
use protocol_model::duration::parse_go;

use super::Json;
use super::bootstrap::read_secret;
use crate::failure::Failure;
use crate::listing::PageFlags;
use crate::render::acl::token;
use crate::session::Session;

/// The hint where an accessor is unknown.
const WHOLE_ID: &str = "`drover acl token list` shows the accessor ids; the whole id is needed";

#[derive(Subcommand, Debug)]
pub(crate) enum TokenCommand {
    /// Create a token, or take over one that has a secret already
    Create(Create),
    /// Delete a token
    Delete(Accessor),
    /// Show a token, with its secret
    Info(Info),
    /// List tokens, without their secrets
    List(List),
    /// Show one's own token
    #[command(name = "self")]
    Own(Json),
    /// Change the name, the type, the policies or the roles of a token
    Update(Update),
}

/// The policies and roles of a token.
#[derive(Args, Debug)]
struct Links {
    /// A policy; may be repeated
    #[arg(long, value_name = "NAME")]
    policy: Vec<String>,
    /// A role by its id; may be repeated
    #[arg(long, value_name = "ID")]
    role_id: Vec<String>,
    /// A role by its name; may be repeated
    #[arg(long, value_name = "NAME")]
    role_name: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// A name for people
    #[arg(long, default_value = "")]
    name: String,
    /// `client` or `management`
    #[arg(long = "type", default_value = "client")]
    kind: String,
    /// Whether it is a token of all regions
    #[arg(long)]
    global: bool,
    #[command(flatten)]
    links: Links,
    /// How long it is valid, from 1m on; without it, until it is deleted
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<Duration>,
    /// The public id of a token whose secret is in FILE, a UUID
    #[arg(long, value_name = "ID", requires = "secret")]
    accessor: Option<String>,
    /// A file with the token's secret, a UUID; - reads it from stdin
    #[arg(value_name = "FILE", requires = "accessor")]
    secret: Option<PathBuf>,
    #[command(flatten)]
    json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Accessor {
    /// The token's accessor id
    #[arg(value_name = "ACCESSOR")]
    accessor: String,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The token's accessor id
    #[arg(value_name = "ACCESSOR")]
    accessor: String,
    #[command(flatten)]
    json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    page: PageFlags,
    #[command(flatten)]
    json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Update {
    /// The token's accessor id
    #[arg(value_name = "ACCESSOR")]
    accessor: String,
    /// Another name
    #[arg(long)]
    name: Option<String>,
    /// `client` or `management`
    #[arg(long = "type")]
    kind: Option<String>,
    #[command(flatten)]
    links: Links,
    #[command(flatten)]
    json: Json,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_go(text).map_err(|error| error.to_string())
}

impl Links {
    fn roles(&self) -> Vec<RoleLink> {
        let by_id = self.role_id.iter().map(|id| RoleLink {
            id: id.clone(),
            name: String::new(),
        });
        let by_name = self.role_name.iter().map(|name| RoleLink {
            id: String::new(),
            name: name.clone(),
        });
        by_id.chain(by_name).collect()
    }
}

impl TokenCommand {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let query = Query::new();
        match self {
            Self::Create(create) => create.run(session).await,
            Self::Delete(Accessor { accessor }) => {
                let delete = DeleteToken {
                    accessor: &accessor,
                };
                client.call(&delete, &query).await?;
                let text = format!("Token {accessor} successfully deleted");
                session.out.data(&text)
            }
            Self::Info(Info { accessor, json }) => {
                let read = ReadToken {
                    accessor: &accessor,
                };
                let render = |it: Token| token::one(&it);
                let read = (&read, &query);
                let shown = session.show(&client, read, json.form(), render).await;
                shown.map_err(|failure| failure.naming(&accessor, WHOLE_ID))
            }
            Self::List(List { page, json }) => {
                let query = page.of(query);
                let now = session.clock().now;
                let render = |all: Vec<TokenStub>| token::list(&all, now);
                let list = (&ListTokens, &query);
                session.show(&client, list, json.form(), render).await
            }
            Self::Own(json) => {
                let render = |it: Token| token::one(&it);
                let read = (&OwnToken, &query);
                session.show(&client, read, json.form(), render).await
            }
            Self::Update(update) => update.run(session).await,
        }
    }
}

impl Create {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let mut request = TokenRequest {
            roles: self.links.roles(),
            name: self.name,
            kind: self.kind,
            policies: self.links.policy,
            global: Some(self.global),
            expiration_ttl: self.ttl.unwrap_or_default(),
            ..TokenRequest::default()
        };
        if let (Some(accessor), Some(path)) = (self.accessor, self.secret) {
            request.accessor_id = accessor;
            request.secret_id = read_secret(&path)?;
        }
        let client = session.client()?;
        let query = Query::new();
        let made = client.call_with(&CreateToken, &query, &request).await?;
        self.json.print(session, &made.value, token::one)
    }
}

impl Update {
    /// Reads the token first: a request has the whole of it.
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let query = Query::new();
        let accessor = self.accessor.as_str();
        let known = client.call(&ReadToken { accessor }, &query).await;
        let known = known.map_err(|error| Failure::from(error).naming(accessor, WHOLE_ID))?;
        let known = known.value;
        let roles = self.links.roles();
        let request = TokenRequest {
            accessor_id: known.accessor_id,
            name: self.name.unwrap_or(known.name),
            kind: self.kind.unwrap_or(known.kind),
            policies: match self.links.policy.is_empty() {
                true => known.policies,
                false => self.links.policy,
            },
            roles: match roles.is_empty() {
                true => known.roles,
                false => roles,
            },
            global: Some(known.global),
            ..TokenRequest::default()
        };
        let update = UpdateToken { accessor };
        let changed = client.call_with(&update, &query, &request).await?.value;
        self.json.print(session, &changed, token::one)
    }
}
