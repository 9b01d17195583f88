//! `drover namespace`.

use clap::{Args, Subcommand};
use protocol_client::{Client, Query};
use protocol_model::nullable;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::failure::{Exit, Failure};
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
    /// What the API answers
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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Namespace {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default, with = "nullable")]
    meta: BTreeMap<String, String>,
}

impl NamespaceCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        match self {
            Self::List(flags) => list(session, &client, &flags).await?,
            Self::Status(Name { name }) => {
                let found: Namespace = client.get(&path(&name), &Query::new()).await?.value;
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
                let _: Value = client.delete(&path(&name), &Query::new()).await?.value;
                session
                    .out
                    .data(&format!("Successfully deleted namespace {name:?}"))?;
            }
        }
        Ok(Exit::SUCCESS)
    }
}

fn path(name: &str) -> String {
    format!("/v1/namespace/{}", Client::segment(name))
}

async fn list(session: &Session, client: &Client, flags: &List) -> Result<(), Failure> {
    let path = "/v1/namespaces";
    if flags.json {
        let found: Value = client.get(path, &Query::new()).await?.value;
        return session.out.json(&found);
    }
    let found: Vec<Namespace> = client.get(path, &Query::new()).await?.value;
    let mut table = Columns::new(&["Name", "Description"]);
    for namespace in found {
        table.row([namespace.name, namespace.description]);
    }
    session.out.data(&table.render())
}

impl Apply {
    async fn run(self, session: &Session, client: &Client) -> Result<(), Failure> {
        let Self { name, description } = self;
        // What is not named stays as it is.
        let known = client.get::<Namespace>(&path(&name), &Query::new()).await;
        let (known_description, meta) = match known {
            Ok(answer) => (answer.value.description, answer.value.meta),
            Err(error) if error.status() == Some(404) => (String::new(), BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let body = json!({
            "Name": name,
            "Description": description.unwrap_or(known_description),
            "Meta": meta,
        });
        let _: Value = client.put(&path(&name), &Query::new(), &body).await?.value;
        session
            .out
            .data(&format!("Successfully applied namespace {name:?}"))
    }
}
