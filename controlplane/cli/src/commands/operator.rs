//! `drover operator`: the replicated log's members, and the state as a file.

use clap::{Args, Subcommand};
use protocol_api::agent::OpenApi;
use protocol_api::operator::{
    RaftConfiguration, RaftMember, RaftMembers, RemovePeer as RemoveServer, TransferLeadership,
};
use protocol_client::{Client, ClientError, Query};

use super::api::Api;
use super::foreign::OperatorNodeCommand;
use super::keyring::RootCommand;
use super::scheduler::SchedulerCommand;
use super::snapshot::SnapshotCommand;
use crate::failure::{Exit, Failure};
use crate::listing::Form;
use crate::render::columns::Columns;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum OperatorCommand {
    /// Send one request to the HTTP API and print its answer
    Api(Api),
    /// The replicated log's members
    #[command(subcommand)]
    Raft(RaftCommand),
    /// The cluster's state as a file
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// The scheduler's settings
    #[command(subcommand)]
    Scheduler(SchedulerCommand),
    /// Root keys
    #[command(subcommand)]
    Root(RootCommand),
    /// What only a person may decide about a node
    #[command(subcommand)]
    Node(OperatorNodeCommand),
    /// Print the HTTP API of the server as an OpenAPI document
    Openapi,
}

#[derive(Subcommand, Debug)]
pub(crate) enum RaftCommand {
    /// List the servers that replicate the log
    ListPeers(ListPeers),
    /// Let another server lead: where none is named, the most up-to-date that answers
    TransferLeadership(Peer),
    /// Take a server out of the log for good
    RemovePeer(Peer),
}

#[derive(Args, Debug)]
pub(crate) struct ListPeers {
    /// As the server that is asked knows it, even without a leader
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false, value_name = "BOOL", action = clap::ArgAction::Set)]
    stale: bool,
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Peer {
    /// The server's id
    #[arg(long, value_name = "ID", conflicts_with = "peer_address")]
    peer_id: Option<String>,
    /// The server's address, as list-peers shows it
    #[arg(long, value_name = "ADDRESS")]
    peer_address: Option<String>,
}

impl OperatorCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Api(command) => {
                command.run(session).await?;
                Ok(Exit::SUCCESS)
            }
            Self::Raft(command) => command.run(session).await,
            Self::Snapshot(command) => command.run(session).await,
            Self::Scheduler(command) => command.run(session).await,
            Self::Root(command) => command.run(session).await,
            Self::Node(command) => command.run(session).await,
            Self::Openapi => {
                let client = session.client()?;
                let document = client.call(&OpenApi, &Query::new()).await?.value;
                session.out.json(&document)?;
                Ok(Exit::SUCCESS)
            }
        }
    }
}

impl RaftCommand {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        match self {
            Self::ListPeers(command) => command.run(session, &client).await?,
            Self::TransferLeadership(peer) => {
                client.call(&TransferLeadership, &peer.query()).await?;
                session.out.data("Success")?;
            }
            Self::RemovePeer(peer) => {
                if peer.peer_id.is_none() && peer.peer_address.is_none() {
                    return Err(Failure::usage_hint(
                        "a peer has to be named",
                        "-peer-id or -peer-address; `operator raft list-peers` shows them",
                    ));
                }
                client.call(&RemoveServer, &peer.query()).await?;
                session.out.data("Success")?;
            }
        }
        Ok(Exit::SUCCESS)
    }
}

impl Peer {
    fn query(&self) -> Query {
        Query::new()
            .with_some("id", self.peer_id.as_ref())
            .with_some("address", self.peer_address.as_ref())
    }
}

impl ListPeers {
    async fn run(self, session: &Session, client: &Client) -> Result<(), Failure> {
        let query = Query::new().with_some("stale", self.stale.then_some(true));
        let read = (&RaftConfiguration, &query);
        let render = |members: RaftMembers| table(members.servers);
        let shown = session
            .show(client, read, Form::new(self.json), render)
            .await;
        if matches!(
            &shown,
            Err(Failure::Api(ClientError::Status { code: 500, .. }))
        ) {
            let note = "==> without a leader, -stale shows the members as one server knows them";
            session.out.note(note);
        }
        shown
    }
}

fn table(servers: Vec<RaftMember>) -> String {
    let mut table = Columns::new(&["Node", "ID", "Address", "State", "Voter", "RaftProtocol"]);
    for server in servers {
        let state = if server.leader { "leader" } else { "follower" };
        table.row([
            server.node,
            server.id,
            server.address,
            state.to_owned(),
            server.voter.to_string(),
            server.raft_protocol,
        ]);
    }
    table.render()
}
