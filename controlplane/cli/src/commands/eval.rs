//! `drover eval`.

use clap::{Args, Subcommand};
use protocol_api::evaluations::{EvaluationAllocations, ListEvaluations, ReadEvaluation};
use protocol_client::Query;

use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length};
use crate::listing::{Form, PageFlags, ShowFlags};
use crate::monitor::Monitor;
use crate::render::{eval, job};
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum EvalCommand {
    /// List evaluations, the newest first
    List(List),
    /// Show an evaluation and what it could not place
    Status(Status),
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only with this status: blocked, pending, complete, failed, canceled
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    #[command(flatten)]
    page: PageFlags,
    #[command(flatten)]
    show: ShowFlags,
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The evaluation's id, or its beginning
    #[arg(value_name = "EVAL")]
    eval: String,
    /// Watch it until it has ended and its allocations run
    #[arg(long, conflicts_with = "json")]
    monitor: bool,
    /// What the API answers
    #[arg(long)]
    json: bool,
    /// Whole ids and times
    #[arg(long)]
    verbose: bool,
}

impl EvalCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::List(command) => command.run(session).await,
            Self::Status(command) => command.run(session).await,
        }
    }
}

impl List {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let query = Query::new()
            .with("reverse", true)
            .with_some("job", self.job)
            .with_some("status", self.status);
        let list = (&ListEvaluations, &self.page.of(query));
        let render = |evals: Vec<_>| eval::list(&evals, self.show.length());
        session
            .show(&client, list, self.show.form(), render)
            .await?;
        Ok(Exit::SUCCESS)
    }
}

impl Status {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let id = find::id(&client, Kind::Evaluation, &self.eval).await?;
        if self.monitor {
            let length = Length::new(self.verbose);
            return Monitor::new(session, &client, length).watch(&id).await;
        }
        let (id, query) = (&id, &Query::new());
        let read = ReadEvaluation { id };
        if self.json {
            let form = Form::Json;
            session
                .show(&client, (&read, query), form, |_| String::new())
                .await?;
            return Ok(Exit::SUCCESS);
        }
        let found = client.call(&read, query).await?.value;
        let allocs = client
            .call(&EvaluationAllocations { id }, query)
            .await?
            .value;
        let (length, clock) = (Length::new(self.verbose), session.clock());
        let mut text = eval::one(&found, length, session.out.colour(), &clock);
        if !allocs.is_empty() {
            let title = session.out.colour().bold("Placed Allocations");
            let table = job::allocations(&allocs, length, &clock);
            text.push_str(&format!("\n{title}\n{table}"));
        }
        session.out.data(&text)?;
        Ok(Exit::SUCCESS)
    }
}
