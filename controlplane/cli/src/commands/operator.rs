//! `drover operator`: the replicated log's members, and the state as a file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use protocol_client::{Client, Query};
use protocol_model::nullable;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::render::columns::Columns;
use crate::session::Session;

/// The largest snapshot that is sent from memory.
const SNAPSHOT_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

#[derive(Subcommand, Debug)]
pub(crate) enum OperatorCommand {
    /// The replicated log's members
    #[command(subcommand)]
    Raft(RaftCommand),
    /// The cluster's state as a file
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
}

#[derive(Subcommand, Debug)]
pub(crate) enum RaftCommand {
    /// List the servers that replicate the log
    ListPeers,
    /// Let another server lead
    TransferLeadership(Peer),
    /// Take a server out of the log for good
    RemovePeer(Peer),
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

#[derive(Subcommand, Debug)]
pub(crate) enum SnapshotCommand {
    /// Write the cluster's state into a file
    Save(SnapshotFile),
    /// Replace the cluster's state with a file's
    Restore(SnapshotFile),
    /// Show what a file holds; not in this release
    Inspect(SnapshotFile),
}

#[derive(Args, Debug)]
pub(crate) struct SnapshotFile {
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RaftServers {
    #[serde(with = "nullable")]
    servers: Vec<RaftServer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RaftServer {
    #[serde(rename = "ID")]
    id: String,
    node: String,
    address: String,
    leader: bool,
    voter: bool,
    raft_protocol: String,
}

impl OperatorCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        match self {
            Self::Raft(RaftCommand::ListPeers) => list_peers(session, &client).await?,
            Self::Raft(RaftCommand::TransferLeadership(peer)) => {
                let path = "/v1/operator/raft/transfer-leadership";
                let _: Value = client.put(path, &peer.query(), &json!({})).await?.value;
                session.out.data("Success")?;
            }
            Self::Raft(RaftCommand::RemovePeer(peer)) => {
                if peer.peer_id.is_none() && peer.peer_address.is_none() {
                    return Err(Failure::usage_hint(
                        "a peer has to be named",
                        "-peer-id or -peer-address; `operator raft list-peers` shows them",
                    ));
                }
                let path = "/v1/operator/raft/peer";
                let _: Value = client.delete(path, &peer.query()).await?.value;
                session.out.data("Success")?;
            }
            Self::Snapshot(SnapshotCommand::Save(SnapshotFile { file })) => {
                save(&client, &file).await?;
                let text = format!("State file written to: {}", file.display());
                session.out.data(&text)?;
            }
            Self::Snapshot(SnapshotCommand::Restore(SnapshotFile { file })) => {
                restore(&client, &file).await?;
                session.out.data("Snapshot restored")?;
            }
            Self::Snapshot(SnapshotCommand::Inspect(SnapshotFile { file })) => {
                return Err(Failure::usage(format!(
                    "this release cannot look into a snapshot: {}",
                    file.display()
                )));
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

async fn list_peers(session: &Session, client: &Client) -> Result<(), Failure> {
    let path = "/v1/operator/raft/configuration";
    let RaftServers { servers } = client.get(path, &Query::new()).await?.value;
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
    session.out.data(&table.render())
}

/// Writes a snapshot beside `file` and puts it there once it is whole; a file that is there already
/// is not replaced.
async fn save(client: &Client, file: &Path) -> Result<(), Failure> {
    let failed = |source| Failure::WriteFile {
        path: file.to_owned(),
        source,
    };
    if file.exists() {
        return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
    }
    let mut stream = client
        .stream("/v1/operator/snapshot", &Query::new())
        .await?;
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut output = std::fs::File::create(&partial).map_err(failed)?;
    let mut write = async || -> Result<(), Failure> {
        while let Some(bytes) = stream.next().await? {
            output.write_all(&bytes).map_err(failed)?;
        }
        output.sync_all().map_err(failed)?;
        std::fs::rename(&partial, file).map_err(failed)
    };
    let written = write().await;
    if written.is_err() {
        // Half a snapshot must not be taken for one.
        let _ = std::fs::remove_file(&partial);
    }
    written
}

async fn restore(client: &Client, file: &Path) -> Result<(), Failure> {
    let failed = |source| Failure::ReadFile {
        path: file.to_owned(),
        source,
    };
    let size = std::fs::metadata(file).map_err(failed)?.len();
    if size > SNAPSHOT_BYTES_MAX {
        return Err(Failure::usage(format!(
            "{} is larger than {SNAPSHOT_BYTES_MAX} bytes",
            file.display()
        )));
    }
    let bytes = std::fs::read(file).map_err(failed)?;
    let path = "/v1/operator/snapshot";
    let _: Value = client
        .put_bytes(path, &Query::new(), bytes.into())
        .await?
        .value;
    Ok(())
}
