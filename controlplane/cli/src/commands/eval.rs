//! `drover eval`.

use clap::{Args, Subcommand};
use protocol_client::Query;
use protocol_model::{AllocationListStub, Evaluation};
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length};
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
    /// Only those for which this expression holds; see the API's ?filter
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// At most so many
    #[arg(long, value_name = "COUNT")]
    per_page: Option<u32>,
    /// Where an earlier page ended
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
    /// What the API answers
    #[arg(long)]
    json: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
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
            .with_some("status", self.status)
            .with_some("filter", self.filter)
            .with_some("per_page", self.per_page)
            .with_some("next_token", self.page_token);
        let answer = client.get::<Value>("/v1/evaluations", &query).await?;
        if self.json {
            session.out.json(&answer.value)?;
            return Ok(Exit::SUCCESS);
        }
        let evals: Vec<Evaluation> =
            serde_json::from_value(answer.value).map_err(|source| Failure::Json {
                what: "the list of evaluations",
                source,
            })?;
        session
            .out
            .data(&eval::list(&evals, Length::new(self.verbose)))?;
        if let Some(token) = answer.next_token {
            let hint = format!("hint: there is more: -page-token {token}");
            session.out.note(&hint);
        }
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
        let path = format!("/v1/evaluation/{id}");
        let query = Query::new();
        if self.json {
            let found: Value = client.get(&path, &query).await?.value;
            session.out.json(&found)?;
            return Ok(Exit::SUCCESS);
        }
        let found: Evaluation = client.get(&path, &query).await?.value;
        let allocs: Vec<AllocationListStub> = client
            .get(&format!("{path}/allocations"), &query)
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
