//! `drover job action`, also `drover action`: an action of a job file, run in a running task.

use clap::Args;
use protocol_api::Operation as _;
use protocol_api::client::RunAction;
use protocol_api::jobs::JobActions;

use crate::commands::alloc::connection::Connection;
use crate::failure::{Exit, Failure};
use crate::find::{self, Kind};
use crate::session::Session;

/// Run an action that a job file defines, in a task that runs
#[derive(Args, Debug)]
pub(crate) struct Action {
    /// The job
    #[arg(long, value_name = "JOB")]
    job: String,
    /// The group; needed where two groups have a task with this action
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// The task; needed where two tasks have this action
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// The allocation's id or its beginning; the newest running one if absent
    #[arg(long, visible_alias = "alloc", value_name = "ALLOC")]
    allocation: Option<String>,
    #[command(flatten)]
    connection: Connection,
    /// The action's name
    #[arg(value_name = "ACTION")]
    action: String,
}

impl Action {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let id = &name.id;
        let listed = client.call(&JobActions { id }, &name.query()).await?.value;
        let is_wanted = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let named = listed.iter().filter(|found| {
            found.name == self.action
                && is_wanted(&self.task, &found.task_name)
                && is_wanted(&self.group, &found.task_group_name)
        });
        let named: Vec<_> = named.collect();
        let found = match named.as_slice() {
            [only] => only,
            [] => {
                let names: Vec<&str> = listed.iter().map(|it| it.name.as_str()).collect();
                return Err(Failure::usage_hint(
                    format!("job {id:?} has no such action {:?}", self.action),
                    format!("its actions: {}", names.join(", ")),
                ));
            }
            several => {
                let places = several
                    .iter()
                    .map(|it| format!("-group {} -task {}", it.task_group_name, it.task_name));
                return Err(Failure::usage_hint(
                    format!(
                        "several tasks of job {id:?} have an action {:?}",
                        self.action
                    ),
                    format!("one of: {}", places.collect::<Vec<_>>().join("; ")),
                ));
            }
        };
        let alloc = match &self.allocation {
            Some(text) => Some(find::id(&client, Kind::Allocation, text).await?),
            None => None,
        };
        let query = name
            .query()
            .with("action", &self.action)
            .with("task", &found.task_name)
            .with("group", &found.task_group_name)
            .with_some("allocID", alloc);
        let path = RunAction { id }.path();
        self.connection.run(session, &client, &path, query).await
    }
}
