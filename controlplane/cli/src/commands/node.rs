//! `drover node`.

use clap::{ArgGroup, Args, Subcommand};
use protocol_client::{Client, Query};
use protocol_model::{Allocation, Eligibility, Node, NodeListStub, NodeStatus};
use serde_json::{Value, json};

use super::foreign;
use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length};
use crate::render::node;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum NodeCommand {
    /// List nodes, or show one with its allocations
    Status(Status),
    /// Say whether a node takes more allocations
    Eligibility(SetEligibility),
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The node's id, or its beginning; all nodes where not given
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// The node that is named as this host is
    #[arg(long = "self", conflicts_with = "node")]
    this: bool,
    /// In the list: only those for which this expression holds; see the API's ?filter
    #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["node", "this"])]
    filter: Option<String>,
    /// In the list: at most so many
    #[arg(long, value_name = "COUNT")]
    per_page: Option<u32>,
    /// In the list: where an earlier page ended
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
    /// What the API answers
    #[arg(long)]
    json: bool,
    /// In the list: how many allocations each node runs
    #[arg(long)]
    allocs: bool,
    /// In the list: which system each node runs
    #[arg(long)]
    os: bool,
    /// In the list: the whole ids, and nothing else
    #[arg(long, conflicts_with_all = ["node", "this", "json"])]
    quiet: bool,
    /// What the host itself measures now
    #[arg(long)]
    stats: bool,
    /// No allocations
    #[arg(long)]
    short: bool,
    /// Whole ids, addresses, attributes
    #[arg(long)]
    verbose: bool,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("wish").required(true).args(["enable", "disable"]))]
#[command(group = ArgGroup::new("which").required(true).args(["node", "this"]))]
pub(crate) struct SetEligibility {
    /// The node's id, or its beginning
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// The node that is named as this host is
    #[arg(long = "self")]
    this: bool,
    /// Allocations may be placed there
    #[arg(long)]
    enable: bool,
    /// No allocation is placed there any more; what runs stays
    #[arg(long)]
    disable: bool,
}

impl NodeCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Status(command) => command.run(session).await,
            Self::Eligibility(command) => command.run(session).await,
        }
    }
}

impl Status {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let id = match &self.node {
            Some(text) => find::id(&client, Kind::Node, text).await?,
            None if self.this => this_host(&client).await?,
            None => return self.list(session, &client).await,
        };
        let path = format!("/v1/node/{id}");
        let query = Query::new();
        if self.json {
            let found: Value = client.get(&path, &query).await?.value;
            session.out.json(&found)?;
            return Ok(Exit::SUCCESS);
        }
        let found: Node = client.get(&path, &query).await?.value;
        let allocs: Vec<Allocation> = client
            .get(&format!("{path}/allocations"), &query)
            .await?
            .value;
        let clock = session.clock();
        let view = node::View {
            length: Length::new(self.verbose),
            colour: session.out.colour(),
            clock: &clock,
        };
        let mut text = view.one(&found, &allocs, !self.short);
        if found.status == NodeStatus::Ready && !self.short {
            // A node of an older release does not know the question: then there is nothing to show.
            let foreign = foreign::list(&client, &id).await.unwrap_or_default();
            if !foreign.is_empty() {
                text.push_str(&view.foreign(&foreign::table(&foreign)));
            }
        }
        if self.stats {
            let query = Query::new().with("node_id", &id);
            let stats: Value = client.get("/v1/client/stats", &query).await?.value;
            text.push_str(&view.stats(&stats));
        }
        session.out.data(&text)?;
        Ok(Exit::SUCCESS)
    }

    async fn list(&self, session: &Session, client: &Client) -> Result<Exit, Failure> {
        let query = Query::new()
            .with_some("filter", self.filter.as_ref())
            .with_some("per_page", self.per_page)
            .with_some("next_token", self.page_token.as_ref())
            .with_some("os", self.os.then_some(true));
        if self.json {
            let nodes: Value = client.get("/v1/nodes", &query).await?.value;
            session.out.json(&nodes)?;
            return Ok(Exit::SUCCESS);
        }
        let answer = client.get::<Vec<NodeListStub>>("/v1/nodes", &query).await?;
        let nodes = answer.value;
        if self.quiet {
            let ids: Vec<String> = nodes.iter().map(|node| node.id.to_string()).collect();
            session.out.data(&ids.join("\n"))?;
        } else {
            let counts = if self.allocs {
                Some(running(client, &nodes).await?)
            } else {
                None
            };
            let length = Length::new(self.verbose);
            session
                .out
                .data(&node::list(&nodes, counts.as_deref(), length))?;
        }
        if let Some(token) = answer.next_token {
            let hint = format!("hint: there is more: -page-token {token}");
            session.out.note(&hint);
        }
        Ok(Exit::SUCCESS)
    }
}

/// The node that has this host's name, unless its configuration gives it another.
async fn this_host(client: &Client) -> Result<String, Failure> {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    let nodes: Vec<NodeListStub> = client.get("/v1/nodes", &Query::new()).await?.value;
    let named: Vec<&NodeListStub> = nodes.iter().filter(|node| node.name == host).collect();
    match named.as_slice() {
        [one] => Ok(one.id.to_string()),
        [] => Err(Failure::usage_hint(
            format!("no node is named as this host is: {host:?}"),
            "`drover node status` lists them all",
        )),
        several => Err(Failure::Ambiguous {
            what: "node",
            id: host,
            matches: several.iter().map(|node| node.id.to_string()).collect(),
        }),
    }
}

/// How many allocations each of these nodes runs.
async fn running(client: &Client, nodes: &[NodeListStub]) -> Result<Vec<usize>, Failure> {
    let mut counts = Vec::with_capacity(nodes.len());
    for node in nodes {
        let path = format!("/v1/node/{}/allocations", node.id);
        let allocs: Vec<Allocation> = client.get(&path, &Query::new()).await?.value;
        counts.push(allocs.iter().filter(|alloc| node::runs(alloc)).count());
    }
    Ok(counts)
}

impl SetEligibility {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let id = match &self.node {
            Some(text) => find::id(&client, Kind::Node, text).await?,
            None => this_host(&client).await?,
        };
        let wish = if self.enable {
            Eligibility::Eligible
        } else {
            Eligibility::Ineligible
        };
        let body = json!({ "NodeID": id, "Eligibility": wish });
        let path = format!("/v1/node/{id}/eligibility");
        let _: Value = client.put(&path, &Query::new(), &body).await?.value;
        let word = crate::render::word(&wish);
        session.out.data(&format!(
            "Node {id:?} scheduling eligibility set: {word} for scheduling"
        ))?;
        Ok(Exit::SUCCESS)
    }
}
