//! `drover alloc exec`: a command in a task.

use clap::Args;
use protocol_api::Operation as _;
use protocol_api::client::ExecAllocation;
use protocol_client::Query;

use super::connection::Connection;
use super::target;
use crate::failure::{Exit, Failure};
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Exec {
    /// The task; needed where there are several
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// The target is a job; its newest allocation is meant
    #[arg(long)]
    job: bool,
    /// With -job: of this group
    #[arg(long, requires = "job")]
    group: Option<String>,
    #[command(flatten)]
    connection: Connection,
    /// The allocation's id or its beginning, then the command
    #[arg(required = true, num_args = 2.., trailing_var_arg = true,
          value_names = ["ALLOC", "COMMAND"])]
    words: Vec<String>,
}

impl Exec {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let Some((target, command)) = self.words.split_first() else {
            return Err(Failure::usage("an allocation and a command are needed"));
        };
        let client = session.client()?;
        let group = self.group.as_deref();
        let alloc = target::allocation(&client, target, self.job, group).await?;
        let task = target::task(&alloc, self.task.as_deref())?;
        let words = serde_json::to_string(command).map_err(|source| Failure::Json {
            what: "the command",
            source,
        })?;
        let query = Query::new().with("task", task).with("command", words);
        let id = &alloc.id.to_string();
        let path = ExecAllocation { id }.path();
        self.connection.run(session, &client, &path, query).await
    }
}
