//! `drover operator node`: ending what runs on a node although the cluster, as it was restored,
//! does not know it.

use clap::{Args, Subcommand};
use protocol_api::nodes::{ForeignAllocations, ReleaseForeign};
use protocol_client::{Client, Query};
use protocol_model::ForeignAlloc;

use crate::asking::agreed;
use crate::failure::{Exit, Failure};
use crate::find::{self, Kind};
use crate::render::columns::Columns;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum OperatorNodeCommand {
    /// End allocations that the cluster does not know since it was restored from a snapshot
    ReleaseForeign(Release),
}

#[derive(Args, Debug)]
pub(crate) struct Release {
    /// The node's id, or its beginning
    #[arg(value_name = "NODE")]
    node: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl OperatorNodeCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::ReleaseForeign(command) => command.run(session).await,
        }
    }
}

impl Release {
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
            if !is_meant(session, found.len(), &node)? {
                session.out.note("nothing was ended");
                return Ok(Exit::NO);
            }
        }
        let release = ReleaseForeign { id: &node };
        let released = client.call(&release, &Query::new()).await?.value;
        session.out.data(&table(&released))?;
        session
            .out
            .data(&format!("{} allocations are being ended", released.len()))?;
        Ok(Exit::SUCCESS)
    }
}

/// What runs on a node although the cluster does not know it.
pub(crate) async fn list(client: &Client, node: &str) -> Result<Vec<ForeignAlloc>, Failure> {
    let list = ForeignAllocations { id: node };
    Ok(client.call(&list, &Query::new()).await?.value)
}

pub(crate) fn table(allocs: &[ForeignAlloc]) -> String {
    let mut table = Columns::new(&["ID", "Namespace", "Job ID", "Task Group", "Status"]);
    for alloc in allocs {
        table.row([
            alloc.id.to_string(),
            alloc.namespace.clone(),
            alloc.job_id.clone(),
            alloc.task_group.clone(),
            alloc.client_status.as_str().to_owned(),
        ]);
    }
    table.render()
}

fn is_meant(session: &Session, count: usize, node: &str) -> Result<bool, Failure> {
    let unasked = Failure::usage_hint(
        format!("{count} allocations would be ended on node {node}"),
        "give -yes",
    );
    let question =
        format!("Are you sure you want to end these {count} allocations on node {node}?");
    agreed(session, &question, unasked)
}
