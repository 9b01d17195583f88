//! `drover node`.

use clap::{ArgGroup, Args, Subcommand};
use protocol_client::{Client, Query};
use protocol_model::{Allocation, Eligibility, Node, NodeListStub};
use serde_json::{Value, json};

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
    /// What the API answers
    #[arg(long)]
    json: bool,
    /// In the list: how many allocations each node runs
    #[arg(long)]
    allocs: bool,
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
pub(crate) struct SetEligibility {
    /// The node's id, or its beginning
    #[arg(value_name = "NODE")]
    node: String,
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
        let Some(text) = &self.node else {
            return self.list(session, &client).await;
        };
        let id = find::id(&client, Kind::Node, text).await?;
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
        if self.stats {
            let query = Query::new().with("node_id", &id);
            let stats: Value = client.get("/v1/client/stats", &query).await?.value;
            text.push_str(&view.stats(&stats));
        }
        session.out.data(&text)?;
        Ok(Exit::SUCCESS)
    }

    async fn list(&self, session: &Session, client: &Client) -> Result<Exit, Failure> {
        let query = Query::new();
        if self.json {
            let nodes: Value = client.get("/v1/nodes", &query).await?.value;
            session.out.json(&nodes)?;
            return Ok(Exit::SUCCESS);
        }
        let nodes: Vec<NodeListStub> = client.get("/v1/nodes", &query).await?.value;
        let counts = if self.allocs {
            Some(running(client, &nodes).await?)
        } else {
            None
        };
        let length = Length::new(self.verbose);
        session
            .out
            .data(&node::list(&nodes, counts.as_deref(), length))?;
        Ok(Exit::SUCCESS)
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
        let id = find::id(&client, Kind::Node, &self.node).await?;
        let wish = if self.enable {
            Eligibility::Eligible
        } else {
            Eligibility::Ineligible
        };
        let body = json!({ "NodeID": id, "Eligibility": wish });
        let path = format!("/v1/node/{id}/eligibility");
        let _: Value = client.put(&path, &Query::new(), &body).await?.value;
        let word = crate::render::word(&wish);
        session
            .out
            .data(&format!("Node {id:?} scheduling eligibility set: {word}"))?;
        Ok(Exit::SUCCESS)
    }
}
