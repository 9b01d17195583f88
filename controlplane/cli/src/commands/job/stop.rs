//! `drover job stop`.

use clap::Args;
use protocol_api::jobs::StopJob;
use protocol_client::Client;

use crate::asking;
use crate::failure::{Exit, Failure};
use crate::find::{self, JobName, Length};
use crate::monitor::Monitor;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Stop {
    /// The job's id, or its beginning; may be repeated
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Forget the job at once
    #[arg(long)]
    purge: bool,
    /// Return once the stop is registered; prints the evaluation's id
    #[arg(long)]
    detach: bool,
    /// The priority of the evaluation, 1 to 100
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(i32).range(1..=100))]
    eval_priority: Option<i32>,
    /// Do not wait for shutdown_delay
    #[arg(long)]
    no_shutdown_delay: bool,
    /// Accepted: a job is in one region
    #[arg(long, hide = true)]
    global: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

impl Stop {
    /// All names first, so that nothing is stopped where one of them is a mistake; then all stops,
    /// so that none waits for another job's end; then what becomes of them.
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let mut jobs = Vec::new();
        let mut failures = Vec::new();
        for text in &self.jobs {
            match self.resolve(session, &client, text).await {
                // Named twice, it is stopped once.
                Ok(Some(job)) if jobs.contains(&job) => {}
                Ok(Some(job)) => jobs.push(job),
                Ok(None) => {
                    session.out.note("nothing was stopped");
                    return ended(session, Exit::NO, failures);
                }
                Err(failure) => failures.push(failure),
            }
        }
        if !failures.is_empty() {
            session.out.note("nothing was stopped");
            return ended(session, Exit::SUCCESS, failures);
        }
        let mut evals = Vec::new();
        for job in &jobs {
            match self.submit(&client, job).await {
                Ok(eval) => evals.extend(eval),
                Err(failure) => failures.push(failure),
            }
        }
        let mut worst = Exit::SUCCESS;
        for eval in &evals {
            let watched = if self.detach {
                session.out.data(eval).map(|()| Exit::SUCCESS)
            } else {
                let length = Length::new(self.verbose);
                Monitor::new(session, &client, length).watch(eval).await
            };
            match watched {
                Ok(Exit::SUCCESS) => {}
                Ok(exit) => worst = exit,
                Err(failure) => failures.push(failure),
            }
        }
        ended(session, worst, failures)
    }

    /// The job that was meant; `None` where its user says that it is not.
    async fn resolve(
        &self,
        session: &Session,
        client: &Client,
        text: &str,
    ) -> Result<Option<JobName>, Failure> {
        let job = find::job(client, text).await?;
        // A whole name was meant; a beginning may have hit what was not.
        if job.id != text && !self.yes && !agreed(session, &job.id)? {
            return Ok(None);
        }
        Ok(Some(job))
    }

    /// Asks for the stop; `None` where nothing has to be evaluated.
    async fn submit(&self, client: &Client, job: &JobName) -> Result<Option<String>, Failure> {
        let query = job
            .query()
            .with("purge", self.purge)
            .with("no_shutdown_delay", self.no_shutdown_delay)
            .with_some("eval_priority", self.eval_priority);
        let stop = StopJob { id: &job.id };
        let eval_id = client.call(&stop, &query).await?.value.eval_id;
        Ok((!eval_id.is_empty()).then_some(eval_id))
    }
}

/// Tells every failure but the last, which ends the command with 1.
fn ended(session: &Session, worst: Exit, mut failures: Vec<Failure>) -> Result<Exit, Failure> {
    let Some(last) = failures.pop() else {
        return Ok(worst);
    };
    for failure in failures {
        session.out.failure(&failure);
    }
    Err(last)
}

/// Asks whether the job that was found is the one that was meant.
fn agreed(session: &Session, id: &str) -> Result<bool, Failure> {
    let question = format!("Are you sure you want to stop job {id:?}?");
    let unasked = Failure::usage_hint(
        format!("the only job that begins so is {id:?}"),
        "give its whole id, or -yes",
    );
    asking::agreed(session, &question, unasked)
}
