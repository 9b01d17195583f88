//! `drover operator node`: ending what runs on a node although the cluster, as it was restored,
//! does not know it.

use std::io::{BufRead, IsTerminal};

use clap::{Args, Subcommand};
use protocol_client::{Client, Query};
use serde::Deserialize;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::find::{self, Kind};
use crate::render::columns::Columns;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum OperatorNodeCommand {
    /// End allocations that the cluster does not know since it was restored from a snapshot
    ReleaseForeign(ReleaseForeign),
}

#[derive(Args, Debug)]
pub(crate) struct ReleaseForeign {
    /// The node's id, or its beginning
    #[arg(value_name = "NODE")]
    node: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// An allocation as its node shows it.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Foreign {
    #[serde(rename = "ID")]
    id: String,
    namespace: String,
    #[serde(rename = "JobID")]
    job_id: String,
    task_group: String,
    client_status: String,
}

impl OperatorNodeCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::ReleaseForeign(command) => command.run(session).await,
        }
    }
}

impl ReleaseForeign {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let node = find::id(&client, Kind::Node, &self.node).await?;
        let found = list(&client, &node).await?;
        if found.is_empty() {
            session
                .out
                .data("Nothing runs there that the cluster does not know.")?;
            return Ok(Exit::SUCCESS);
        }
        if !self.yes {
            session.out.note(&table(&found));
            if !agreed(session, found.len(), &node)? {
                session.out.note("nothing was ended");
                return Ok(Exit::NO);
            }
        }
        let path = format!("/v1/node/{node}/release-foreign");
        let query = Query::new();
        let released: Vec<Foreign> = client.put(&path, &query, &json!({})).await?.value;
        session.out.data(&table(&released))?;
        session
            .out
            .data(&format!("{} allocations are being ended", released.len()))?;
        Ok(Exit::SUCCESS)
    }
}

/// What runs on a node although the cluster does not know it.
pub(crate) async fn list(client: &Client, node: &str) -> Result<Vec<Foreign>, Failure> {
    let path = format!("/v1/node/{node}/foreign-allocations");
    Ok(client.get(&path, &Query::new()).await?.value)
}

pub(crate) fn table(allocs: &[Foreign]) -> String {
    let mut table = Columns::new(&["ID", "Namespace", "Job ID", "Task Group", "Status"]);
    for alloc in allocs {
        table.row([
            alloc.id.clone(),
            alloc.namespace.clone(),
            alloc.job_id.clone(),
            alloc.task_group.clone(),
            alloc.client_status.clone(),
        ]);
    }
    table.render()
}

fn agreed(session: &Session, count: usize, node: &str) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage_hint(
            format!("{count} allocations would be ended on node {node}"),
            "give -yes",
        ));
    }
    session.out.note(&format!(
        "Are you sure you want to end these {count} allocations on node {node}? [y/N]"
    ));
    let mut answer = String::new();
    stdin
        .lock()
        .read_line(&mut answer)
        .map_err(|source| Failure::Host {
            what: "reading the answer",
            source,
        })?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}
