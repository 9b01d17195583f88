//! `drover acl auth-method`.

use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use protocol_api::acl::{
    AuthMethodRequest, CreateAuthMethod, DeleteAuthMethod, ListAuthMethods, ReadAuthMethod,
    UpdateAuthMethod,
};
use protocol_client::Query;
use protocol_model::duration::parse_go;
use protocol_model::{AUTH_METHOD_JWT, AuthMethod, AuthMethodConfig, AuthMethodStub};

use super::Json;
use crate::failure::Failure;
use crate::job_file::file_or_stdin;
use crate::render::acl::auth_method;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum AuthMethodCommand {
    /// Create an auth method
    Create(Create),
    /// Delete an auth method, with its binding rules
    Delete(Name),
    /// Show an auth method
    Info(Info),
    /// List auth methods
    List(Json),
    /// Change an auth method
    Update(Update),
}

/// The fields of an auth method.
#[derive(Args, Debug)]
struct Fields {
    /// `OIDC` or `JWT`
    #[arg(long = "type")]
    kind: Option<String>,
    /// How long its tokens are valid
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_token_ttl: Option<Duration>,
    /// `local` or `global`
    #[arg(long, value_name = "LOCALITY")]
    token_locality: Option<String>,
    /// How its tokens are named; ${auth_method_type}-${auth_method_name} if absent
    #[arg(long, value_name = "FORMAT")]
    token_name_format: Option<String>,
    /// Whether a login that names no method uses this one
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    default: Option<bool>,
    /// Its configuration: JSON, @FILE, or - for stdin
    #[arg(long, value_name = "CONFIG")]
    config: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// Its name, unique
    #[arg(long)]
    name: String,
    #[command(flatten)]
    fields: Fields,
    #[command(flatten)]
    json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Name {
    /// The auth method
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The auth method
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Update {
    /// The auth method
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    fields: Fields,
    #[command(flatten)]
    json: Json,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_go(text).map_err(|error| error.to_string())
}

impl AuthMethodCommand {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let query = Query::new();
        match self {
            Self::Create(Create { name, fields, json }) => {
                let request = fields.request(name)?;
                let made = client.call_with(&CreateAuthMethod, &query, &request);
                let made = made.await?.value;
                warn_unbound(session, &made);
                json.print(session, &made, auth_method::one)
            }
            Self::Delete(Name { name }) => {
                let delete = DeleteAuthMethod { name: &name };
                client.call(&delete, &query).await?;
                let text = format!("ACL auth method {name} successfully deleted");
                session.out.data(&text)
            }
            Self::Info(Info { name, json }) => {
                let read = (&ReadAuthMethod { name: &name }, &query);
                let render = |it: AuthMethod| auth_method::one(&it);
                let shown = session.show(&client, read, json.form(), render).await;
                let hint = "`drover acl auth-method list` shows the methods";
                shown.map_err(|failure| failure.naming(&name, hint))
            }
            Self::List(json) => {
                let render = |all: Vec<AuthMethodStub>| auth_method::list(&all);
                let list = (&ListAuthMethods, &query);
                session.show(&client, list, json.form(), render).await
            }
            Self::Update(Update { name, fields, json }) => {
                let update = UpdateAuthMethod { name: &name };
                let request = fields.request(name.clone())?;
                let changed = client.call_with(&update, &query, &request);
                let changed = changed.await?.value;
                warn_unbound(session, &changed);
                json.print(session, &changed, auth_method::one)
            }
        }
    }
}

impl Fields {
    /// The request of these flags; a flag that is not given leaves its field as it is.
    fn request(self, name: String) -> Result<AuthMethodRequest, Failure> {
        Ok(AuthMethodRequest {
            name,
            kind: self.kind.unwrap_or_default(),
            token_locality: self.token_locality.unwrap_or_default(),
            token_name_format: self.token_name_format.unwrap_or_default(),
            max_token_ttl: self.max_token_ttl.unwrap_or_default(),
            default: self.default,
            config: self.config.as_deref().map(config).transpose()?,
        })
    }
}

/// The configuration that `-config` names.
fn config(flag: &str) -> Result<AuthMethodConfig, Failure> {
    let (name, text) = match flag.strip_prefix('@') {
        Some(path) => file_or_stdin(Path::new(path))?,
        None if flag == "-" => file_or_stdin(Path::new(flag))?,
        None => ("-config".to_owned(), flag.to_owned()),
    };
    protocol_model::json::from_str(&text).map_err(|error| {
        Failure::usage_hint(
            format!("{name} is no configuration of an auth method: {error}"),
            "expected JSON, @FILE with JSON, or - for stdin",
        )
    })
}

/// Warns of a method that takes every token of its provider, those for other services included.
fn warn_unbound(session: &Session, method: &AuthMethod) {
    let is_unbound = |config: &AuthMethodConfig| config.bound_audiences.is_empty();
    if method.kind == AUTH_METHOD_JWT && method.config.as_ref().is_some_and(is_unbound) {
        session.out.note(
            "warning: BoundAudiences is empty: tokens that the provider made for other services \
             log in, too",
        );
    }
}
