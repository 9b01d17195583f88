//! `drover eval`.

use clap::{Args, Subcommand};
use protocol_api::evaluations::{
    CountEvaluations, DeleteEvaluations, EvalDeleteRequest, EvalsDeleted, EvaluationAllocations,
    ListEvaluations, ReadEvaluation,
};
use protocol_client::Query;

use crate::asking;
use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length};
use crate::listing::{Form, PageFlags, ShowFlags};
use crate::monitor::Monitor;
use crate::render::{eval, job};
use crate::session::{PATIENCE_WHOLE_STATE, Session};

#[derive(Subcommand, Debug)]
pub(crate) enum EvalCommand {
    /// Delete evaluations, by ids or by an expression
    Delete(Delete),
    /// List evaluations, the newest first
    List(List),
    /// Show an evaluation and what it could not place
    Status(Status),
}

#[derive(Args, Debug)]
pub(crate) struct Delete {
    /// The evaluation's id, or its beginning; may be repeated
    #[arg(
        value_name = "EVAL",
        required_unless_present = "filter",
        conflicts_with = "filter"
    )]
    evals: Vec<String>,
    /// All for which this expression holds: 'Status == "pending"'
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
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
    /// Answer of the API
    #[arg(long)]
    json: bool,
    /// Whole ids and times
    #[arg(long)]
    verbose: bool,
}

impl EvalCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Delete(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Status(command) => command.run(session).await,
        }
    }
}

impl Delete {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        // A filter of millions of evaluations is many entries of the log.
        let client = session.client()?.with_patience(PATIENCE_WHOLE_STATE);
        let mut request = EvalDeleteRequest::default();
        if let Some(filter) = self.filter {
            let query = Query::new().with("filter", &filter);
            let count = client.call(&CountEvaluations, &query).await?.value.count;
            if count == 0 {
                return Err(Failure::Usage {
                    message: "failed to find any evals that matched filter criteria".to_owned(),
                    hint: None,
                });
            }
            if !self.yes && !is_meant(session, count)? {
                session.out.note("nothing was deleted");
                return Ok(Exit::NO);
            }
            request.filter = filter;
        } else {
            // All names first, so that nothing is deleted where one of them is a mistake.
            for text in &self.evals {
                let id = find::id(&client, Kind::Evaluation, text).await?;
                let id = id.parse().map_err(|_| Failure::NotAnId { id })?;
                request.eval_ids.push(id);
            }
        }
        let answer = client
            .call_with(&DeleteEvaluations, &Query::new(), &request)
            .await?;
        tell(session, &answer.value)?;
        Ok(Exit::SUCCESS)
    }
}

fn is_meant(session: &Session, count: u64) -> Result<bool, Failure> {
    let question = format!("Are you sure you want to delete {count} evals?");
    let unasked = Failure::usage_hint(format!("{count} evals would be deleted"), "give -yes");
    asking::agreed(session, &question, unasked)
}

fn tell(session: &Session, deleted: &EvalsDeleted) -> Result<(), Failure> {
    let plural = if deleted.count == 1 { "" } else { "s" };
    let count = deleted.count;
    session
        .out
        .data(&format!("Successfully deleted {count} evaluation{plural}"))?;
    if deleted.open > 0 {
        session.out.note(&format!(
            "{} of them were pending or blocked; their jobs wait for their next evaluation",
            deleted.open
        ));
    }
    if deleted.kept > 0 {
        session.out.note(&format!(
            "{} more match and stay: allocations of theirs run or will be rescheduled, or they \
             changed since",
            deleted.kept
        ));
    }
    Ok(())
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
