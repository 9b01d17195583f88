//! `drover alloc stop`, `restart` and `signal`.

use clap::Args;
use protocol_api::allocations::StopAllocation;
use protocol_api::client::{RestartAllocation, RestartRequest, SignalAllocation, SignalRequest};
use protocol_client::Query;

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

impl Stop {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let id = find::id(&client, Kind::Allocation, &self.alloc).await?;
        let query = Query::new().with("no_shutdown_delay", self.no_shutdown_delay);
        let stopped = client.call(&StopAllocation { id: &id }, &query).await?;
        let eval_id = stopped.value.eval_id;
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
        let request = RestartRequest {
            task_name: task,
            all_tasks: self.all_tasks,
        };
        let id = &alloc.id.to_string();
        client
            .call_with(&RestartAllocation { id }, &Query::new(), &request)
            .await?;
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
        let request = SignalRequest {
            task,
            signal: self.signal,
        };
        let id = &alloc.id.to_string();
        client
            .call_with(&SignalAllocation { id }, &Query::new(), &request)
            .await?;
        Ok(Exit::SUCCESS)
    }
}
