//! `drover alloc stop`, `restart` and `signal`.

use clap::Args;
use protocol_client::Query;
use serde::Deserialize;
use serde_json::{Value, json};

use super::target;
use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length};
use crate::monitor::Monitor;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Stop {
    /// The allocation's id, or its beginning
    #[arg(value_name = "ALLOC")]
    alloc: String,
    /// Return once the stop is registered; prints the evaluation's id
    #[arg(long)]
    detach: bool,
    /// Do not wait for shutdown_delay
    #[arg(long)]
    no_shutdown_delay: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Stopped {
    #[serde(rename = "EvalID")]
    eval_id: String,
}

impl Stop {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let id = find::id(&client, Kind::Allocation, &self.alloc).await?;
        let query = Query::new().with("no_shutdown_delay", self.no_shutdown_delay);
        let path = format!("/v1/allocation/{id}/stop");
        let Stopped { eval_id } = client.put(&path, &query, &json!({})).await?.value;
        if self.detach {
            session.out.data(&eval_id)?;
            return Ok(Exit::SUCCESS);
        }
        let length = Length::new(self.verbose);
        Monitor::new(session, &client, length).watch(&eval_id).await
    }
}

#[derive(Args, Debug)]
pub(crate) struct Restart {
    /// The allocation's id, or its beginning
    #[arg(value_name = "ALLOC")]
    alloc: String,
    /// The task; all running ones where not given
    #[arg(value_name = "TASK")]
    task_name: Option<String>,
    /// The task, named by a flag
    #[arg(long, value_name = "TASK", conflicts_with = "task_name")]
    task: Option<String>,
    /// All tasks, also those that have ended
    #[arg(long, conflicts_with_all = ["task", "task_name"])]
    all_tasks: bool,
}

impl Restart {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let alloc = target::allocation(&client, &self.alloc, false, None).await?;
        let task = match self.task_name.as_deref().or(self.task.as_deref()) {
            Some(name) => target::task(&alloc, Some(name))?,
            None => String::new(),
        };
        let body = json!({ "TaskName": task, "AllTasks": self.all_tasks });
        let path = format!("/v1/client/allocation/{}/restart", alloc.id);
        let _: Value = client.put(&path, &Query::new(), &body).await?.value;
        Ok(Exit::SUCCESS)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Signal {
    /// The allocation's id, or its beginning
    #[arg(value_name = "ALLOC")]
    alloc: String,
    /// The task; all running ones where not given
    #[arg(value_name = "TASK")]
    task_name: Option<String>,
    /// The task, named by a flag
    #[arg(long, value_name = "TASK", conflicts_with = "task_name")]
    task: Option<String>,
    /// The signal's name
    #[arg(short = 's', value_name = "SIGNAL", default_value = "SIGKILL")]
    signal: String,
}

impl Signal {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let alloc = target::allocation(&client, &self.alloc, false, None).await?;
        let task = match self.task_name.as_deref().or(self.task.as_deref()) {
            Some(name) => target::task(&alloc, Some(name))?,
            None => String::new(),
        };
        let body = json!({ "Task": task, "Signal": self.signal });
        let path = format!("/v1/client/allocation/{}/signal", alloc.id);
        let _: Value = client.put(&path, &Query::new(), &body).await?.value;
        Ok(Exit::SUCCESS)
    }
}
