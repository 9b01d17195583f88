//! `drover namespace`.

mod apply;

use clap::{Args, Subcommand};
use protocol_api::namespaces::{DeleteNamespace, ListNamespaces, Namespace, ReadNamespace};
use protocol_client::{Client, Query};

use crate::failure::{Exit, Failure};
use crate::listing::Form;
use crate::render::namespace;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum NamespaceCommand {
    /// Create or change a namespace
    Apply(apply::Apply),
    /// Delete a namespace without live jobs and allocations
    Delete(Name),
    /// Show a namespace as the API answers it
    Inspect(Inspect),
    /// List namespaces
    List(List),
    /// Show a namespace
    Status(Show),
}

#[derive(Args, Debug)]
pub(crate) struct Name {
    /// The namespace
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// The namespace, or the beginning of its name
    #[arg(value_name = "NAME")]
    name: String,
    /// Answer of the API, which is the default
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The namespace, or the beginning of its name
    #[arg(value_name = "NAME")]
    name: String,
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

impl NamespaceCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Apply(command) => command.run(session).await?,
            Self::Delete(Name { name }) => {
                let client = session.client()?;
                let delete = DeleteNamespace { name: &name };
                client.call(&delete, &Query::new()).await?;
                let text = format!("Successfully deleted namespace {name:?}!");
                session.out.data(&text)?;
            }
            // It has no other form.
            Self::Inspect(Inspect { name, json: _ }) => show(session, &name, Form::Json).await?,
            Self::List(List { json }) => {
                let client = session.client()?;
                let list = (&ListNamespaces, &Query::new());
                let render = |found: Vec<Namespace>| namespace::list(&found);
                session.show(&client, list, Form::new(json), render).await?;
            }
            Self::Status(Show { name, json }) => show(session, &name, Form::new(json)).await?,
        }
        Ok(Exit::SUCCESS)
    }
}

async fn show(session: &Session, name: &str, form: Form) -> Result<(), Failure> {
    let client = session.client()?;
    let name = find(&client, name).await?;
    let read = (&ReadNamespace { name: &name }, &Query::new());
    let render = |found: Namespace| namespace::one(&found);
    session.show(&client, read, form, render).await
}

/// The whole name of the namespace of this name, else of the one whose name begins so.
///
/// # Errors
/// If there is none, or several.
async fn find(client: &Client, text: &str) -> Result<String, Failure> {
    let query = Query::new().with("prefix", text);
    let found = client.call(&ListNamespaces, &query).await?.value;
    if found.iter().any(|namespace| namespace.name == text) {
        return Ok(text.to_owned());
    }
    let names: Vec<String> = found.into_iter().map(|namespace| namespace.name).collect();
    match names.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::usage_hint(
            format!("Namespace {text:?} matched no namespaces"),
            "`drover namespace list` lists them all",
        )),
        _ => Err(Failure::Ambiguous {
            what: "namespace",
            id: text.to_owned(),
            matches: names,
        }),
    }
}
