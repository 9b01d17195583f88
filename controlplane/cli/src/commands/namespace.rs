//! `drover namespace`.

use clap::{Args, Subcommand};
use protocol_api::namespaces::{
    DeleteNamespace, ListNamespaces, Namespace, NamespaceRequest, ReadNamespace, UpdateNamespace,
};
use protocol_client::{Client, Query};
use std::collections::BTreeMap;

use crate::failure::{Exit, Failure};
use crate::listing::Form;
use crate::render::columns::{Columns, pairs};
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum NamespaceCommand {
    /// List namespaces
    List(List),
    /// Show a namespace
    Status(Name),
    /// Make or change a namespace
    Apply(Apply),
    /// Delete a namespace without jobs
    Delete(Name),
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Name {
    /// The namespace
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// The namespace
    #[arg(value_name = "NAME")]
    name: String,
    /// What it is for
    #[arg(long)]
    description: Option<String>,
}

impl NamespaceCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        match self {
            Self::List(flags) => list(session, &client, &flags).await?,
            Self::Status(Name { name }) => {
                let read = ReadNamespace { name: &name };
                let found = client.call(&read, &Query::new()).await?.value;
                let mut all = vec![("Name", found.name), ("Description", found.description)];
                let meta: Vec<String> = found
                    .meta
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                all.push(("Metadata", meta.join(",")));
                session.out.data(&pairs(&all))?;
            }
            Self::Apply(apply) => apply.run(session, &client).await?,
            Self::Delete(Name { name }) => {
                let delete = DeleteNamespace { name: &name };
                client.call(&delete, &Query::new()).await?;
                session
                    .out
                    .data(&format!("Successfully deleted namespace {name:?}"))?;
            }
        }
        Ok(Exit::SUCCESS)
    }
}

async fn list(session: &Session, client: &Client, flags: &List) -> Result<(), Failure> {
    let render = |found: Vec<Namespace>| {
        let mut table = Columns::new(&["Name", "Description"]);
        for namespace in found {
            table.row([namespace.name, namespace.description]);
        }
        table.render()
    };
    let list = (&ListNamespaces, &Query::new());
    session
        .show(client, list, Form::new(flags.json), render)
        .await
}

impl Apply {
    async fn run(self, session: &Session, client: &Client) -> Result<(), Failure> {
        let Self { name, description } = self;
        // What is not named stays as it is.
        let read = ReadNamespace { name: &name };
        let known = client.call(&read, &Query::new()).await;
        let (known_description, meta) = match known {
            Ok(answer) => (answer.value.description, answer.value.meta),
            Err(error) if error.status() == Some(404) => (String::new(), BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let request = NamespaceRequest {
            name: name.clone(),
            description: description.unwrap_or(known_description),
            meta,
        };
        let update = UpdateNamespace { name: &name };
        client.call_with(&update, &Query::new(), &request).await?;
        session
            .out
            .data(&format!("Successfully applied namespace {name:?}"))
    }
}
