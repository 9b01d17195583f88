//! `drover node`.

use clap::{ArgGroup, Args, Subcommand};
use protocol_api::agent::AgentSelf;
use protocol_api::client::NodeStats;
use protocol_api::nodes::{EligibilityRequest, ListNodes, NodeAllocations, ReadNode};
use protocol_client::{Client, Query};
use protocol_model::{Eligibility, NodeListStub, NodeStatus};

use super::{drain, foreign, node_meta, node_pool};
use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length};
use crate::listing::{Form, PageFlags};
use crate::render::node;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum NodeCommand {
    /// List nodes, or show one with its allocations
    Status(Status),
    /// Move allocations off a node
    Drain(drain::Drain),
    /// Say whether a node takes more allocations
    Eligibility(SetEligibility),
    /// Metadata of a node, without a restart of noded
    #[command(subcommand)]
    Meta(node_meta::MetaCommand),
    /// Node pools: make, look at, delete
    #[command(subcommand)]
    Pool(node_pool::PoolCommand),
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The node's id, or its beginning; all nodes where not given
    #[arg(value_name = "NODE", conflicts_with = "filter")]
    node: Option<String>,
    /// The node that is named as this host is
    #[arg(long = "self", conflicts_with_all = ["node", "filter"])]
    this: bool,
    #[command(flatten)]
    page: PageFlags,
    /// Answer of the API
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
            Self::Drain(command) => command.run(session).await,
            Self::Eligibility(command) => command.run(session).await,
            Self::Meta(command) => command.run(session).await,
            Self::Pool(command) => command.run(session).await,
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
        let (read, query) = (ReadNode { id: &id }, Query::new());
        if self.json {
            let form = Form::Json;
            session
                .show(&client, (&read, &query), form, |_| String::new())
                .await?;
            return Ok(Exit::SUCCESS);
        }
        let found = client.call(&read, &query).await?.value;
        let allocs = client
            .call(&NodeAllocations { id: &id }, &query)
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
            let stats = client.call(&NodeStats, &query).await?.value;
            text.push_str(&view.stats(&stats));
        }
        session.out.data(&text)?;
        Ok(Exit::SUCCESS)
    }

    async fn list(&self, session: &Session, client: &Client) -> Result<Exit, Failure> {
        let query = Query::new().with_some("os", self.os.then_some(true));
        let query = self.page.of(query);
        if self.json {
            let list = (&ListNodes, &query);
            session
                .show(client, list, Form::Json, |_| String::new())
                .await?;
            return Ok(Exit::SUCCESS);
        }
        let answer = client.call(&ListNodes, &query).await?;
        let nodes = answer.value;
        let text = if self.quiet {
            let ids: Vec<String> = nodes.iter().map(|node| node.id.to_string()).collect();
            ids.join("\n")
        } else {
            let counts = match self.allocs {
                true => Some(running(client, &nodes).await?),
                false => None,
            };
            node::list(&nodes, counts.as_deref(), Length::new(self.verbose))
        };
        session.out.data(&text)?;
        session.tell_next_page(answer.next_token);
        if !self.quiet
            && let Some(note) = slow_admission(client).await
        {
            session.out.note(&note);
        }
        Ok(Exit::SUCCESS)
    }
}

/// The note for a server that admits nodes slowly. A server of an older release does not tell.
async fn slow_admission(client: &Client) -> Option<String> {
    let agent = client.call(&AgentSelf, &Query::new()).await.ok()?.value;
    let admission = agent.stats.get("admission")?;
    let figure = |name: &str| admission.get(name).map_or("?", String::as_str);
    (figure("slow") == "1").then(|| {
        format!(
            "this server has more nodes than it can serve at once: {} wait for a session, {} come \
             in each second. All of them get one",
            figure("waiting"),
            figure("per_second")
        )
    })
}

/// The node that has this host's name, unless its configuration gives it another.
pub(super) async fn this_host(client: &Client) -> Result<String, Failure> {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    let nodes = client.call(&ListNodes, &Query::new()).await?.value;
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
        let id = &node.id.to_string();
        let allocs = client
            .call(&NodeAllocations { id }, &Query::new())
            .await?
            .value;
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
        let word = crate::render::word(&wish);
        let request = EligibilityRequest {
            eligibility: word.clone(),
        };
        let set = protocol_api::nodes::SetEligibility { id: &id };
        client.call_with(&set, &Query::new(), &request).await?;
        session.out.data(&format!(
            "Node {id:?} scheduling eligibility set: {word} for scheduling"
        ))?;
        Ok(Exit::SUCCESS)
    }
}
