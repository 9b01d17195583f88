//! `drover node meta`: the metadata of a node, read and changed on the node itself.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use protocol_api::client::{ApplyNodeMetadata, NodeMetadataRequest, ReadNodeMetadata};
use protocol_client::{Client, Query};

use crate::failure::{Exit, Failure};
use crate::find::{self, Kind};
use crate::listing::Form;
use crate::render::node_meta;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum MetaCommand {
    /// Set and unset metadata of a node
    Apply(Apply),
    /// Show the metadata of a node: all of it, what was applied, what is configured
    Read(Read),
}

#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// The node's id, or its beginning; the node of the server that is asked, where not given
    #[arg(long, value_name = "NODE")]
    node_id: Option<String>,
    /// Keys to unset, separated by commas
    #[arg(long, value_name = "KEYS", default_value = "")]
    unset: String,
    /// Keys to set; without `=` the value is empty
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Read {
    /// The node's id, or its beginning; the node of the server that is asked, where not given
    #[arg(long, value_name = "NODE")]
    node_id: Option<String>,
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

impl MetaCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Apply(command) => command.run(session).await,
            Self::Read(command) => command.run(session).await,
        }
    }
}

impl Apply {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let meta = changes(&self.pairs, &self.unset);
        if meta.is_empty() {
            return Err(Failure::usage(
                "Must specify -unset or at least 1 key=value pair",
            ));
        }
        let client = session.client()?;
        let node_id = match &self.node_id {
            Some(node) => find::id(&client, Kind::Node, node).await?,
            None => String::new(),
        };
        let request = NodeMetadataRequest { node_id, meta };
        client
            .call_with(&ApplyNodeMetadata, &Query::new(), &request)
            .await?;
        Ok(Exit::SUCCESS)
    }
}

impl Read {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let query = query(&client, self.node_id.as_deref()).await?;
        let colour = session.out.colour();
        let read = (&ReadNodeMetadata, &query);
        session
            .show(&client, read, Form::new(self.json), |meta| {
                node_meta::text(&meta, colour)
            })
            .await?;
        Ok(Exit::SUCCESS)
    }
}

async fn query(client: &Client, node: Option<&str>) -> Result<Query, Failure> {
    match node {
        Some(node) => {
            let id = find::id(client, Kind::Node, node).await?;
            Ok(Query::new().with("node_id", id))
        }
        None => Ok(Query::new()),
    }
}

/// A key that is set and unset is unset, as in Nomad.
fn changes(pairs: &[String], unset: &str) -> BTreeMap<String, Option<String>> {
    let set = pairs.iter().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key.to_owned(), Some(value.to_owned()))
    });
    let unset = unset.split(',').filter(|key| !key.is_empty());
    set.chain(unset.map(|key| (key.to_owned(), None))).collect()
}
