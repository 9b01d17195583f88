//! `drover node pool`.

mod apply;
mod init;

use clap::{Args, Subcommand};
use protocol_api::node_pools::{
    DeleteNodePool, ListNodePools, NodePool, NodePoolJobs, NodePoolNodes, ReadNodePool,
};
use protocol_client::{Client, Query};

use crate::failure::{Exit, Failure};
use crate::find::Length;
use crate::listing::{Form, PageFlags};
use crate::render::{job, node, node_pool};
use crate::session::Session;

/// How many matches are shown when there are several.
const MATCHES_MAX: u32 = 20;

#[derive(Subcommand, Debug)]
pub(crate) enum PoolCommand {
    /// Create or change a node pool
    Apply(apply::Apply),
    /// Delete a node pool without nodes and without jobs that are not over
    Delete(Name),
    /// Show a node pool
    Info(Info),
    /// Write an example of a node pool file
    Init(init::Init),
    /// List the jobs of a node pool
    Jobs(Jobs),
    /// List node pools
    List(List),
    /// List the nodes of a node pool
    Nodes(Nodes),
}

#[derive(Args, Debug)]
pub(crate) struct Name {
    /// The node pool
    #[arg(value_name = "POOL")]
    pool: String,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The node pool, or the beginning of its name
    #[arg(value_name = "POOL")]
    pool: String,
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Jobs {
    /// The node pool, or the beginning of its name
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    page: PageFlags,
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    page: PageFlags,
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Nodes {
    /// The node pool, or the beginning of its name
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    page: PageFlags,
    /// Answer of the API
    #[arg(long)]
    json: bool,
    /// The whole ids, and nothing else
    #[arg(long, conflicts_with_all = ["json", "verbose"])]
    quiet: bool,
    /// Whole ids, addresses, versions
    #[arg(long)]
    verbose: bool,
}

impl PoolCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Apply(command) => command.run(session).await?,
            Self::Delete(Name { pool: name }) => {
                let client = session.client()?;
                let delete = DeleteNodePool { name: &name };
                client.call(&delete, &Query::new()).await?;
                let text = format!("Successfully deleted node pool {name:?}!");
                session.out.data(&text)?;
            }
            Self::Info(command) => command.run(session).await?,
            Self::Init(command) => command.run(session)?,
            Self::Jobs(command) => command.run(session).await?,
            Self::List(List { page, json }) => {
                let client = session.client()?;
                let query = page.of(Query::new());
                let list = (&ListNodePools, &query);
                let render = |pools: Vec<NodePool>| node_pool::list(&pools);
                session.show(&client, list, Form::new(json), render).await?;
            }
            Self::Nodes(command) => command.run(session).await?,
        }
        Ok(Exit::SUCCESS)
    }
}

/// The whole name of the pool of this name, else of the one whose name begins so.
///
/// # Errors
/// If there is none, or several.
async fn find(client: &Client, text: &str) -> Result<String, Failure> {
    let query = Query::new()
        .with("prefix", text)
        .with("per_page", MATCHES_MAX);
    let found = client.call(&ListNodePools, &query).await?.value;
    let names: Vec<String> = found.into_iter().map(|pool| pool.name).collect();
    match names.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::usage_hint(
            format!("no node pool has a name that begins with {text:?}"),
            "`drover node pool list` lists them all",
        )),
        several if several.iter().any(|name| name == text) => Ok(text.to_owned()),
        _ => Err(Failure::Ambiguous {
            what: "node pool",
            id: text.to_owned(),
            matches: names,
        }),
    }
}

impl Info {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let name = find(&client, &self.pool).await?;
        let read = (&ReadNodePool { name: &name }, &Query::new());
        let form = Form::new(self.json);
        let render = |pool: NodePool| node_pool::one(&pool);
        session.show(&client, read, form, render).await
    }
}

impl Jobs {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let name = find(&client, &self.pool).await?;
        let query = self.page.of(Query::new());
        let list = (&NodePoolJobs { name: &name }, &query);
        let clock = session.clock();
        let render = |jobs: Vec<_>| match jobs.is_empty() {
            true => "No jobs".to_owned(),
            false => job::list(&jobs, &clock),
        };
        session
            .show(&client, list, Form::new(self.json), render)
            .await
    }
}

impl Nodes {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        let name = find(&client, &self.pool).await?;
        let query = self.page.of(Query::new());
        let list = (&NodePoolNodes { name: &name }, &query);
        let length = Length::new(self.verbose);
        let render = |nodes: Vec<protocol_model::NodeListStub>| {
            if !self.quiet {
                return node::list(&nodes, None, length);
            }
            let ids: Vec<String> = nodes.iter().map(|node| node.id.to_string()).collect();
            ids.join("\n")
        };
        session
            .show(&client, list, Form::new(self.json), render)
            .await
    }
}
