//! `drover job stop`.

use std::io::{BufRead as _, IsTerminal as _};

use clap::Args;
use protocol_client::Client;
use serde::Deserialize;

use crate::failure::{Exit, Failure};
use crate::find::{self, Length};
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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Stopped {
    #[serde(rename = "EvalID", default)]
    eval_id: String,
}

impl Stop {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let mut worst = Exit::SUCCESS;
        for job in &self.jobs {
            let exit = self.stop(session, &client, job).await?;
            if exit != Exit::SUCCESS {
                worst = exit;
            }
        }
        Ok(worst)
    }

    async fn stop(&self, session: &Session, client: &Client, text: &str) -> Result<Exit, Failure> {
        let job = find::job(client, text).await?;
        // A whole name was meant; a beginning may have hit what was not.
        if job.id != text && !self.yes && !agreed(session, &job.id)? {
            session.out.note("nothing was stopped");
            return Ok(Exit::NO);
        }
        let query = job
            .query()
            .with("purge", self.purge)
            .with("no_shutdown_delay", self.no_shutdown_delay)
            .with_some("eval_priority", self.eval_priority);
        let Stopped { eval_id } = client.delete(&job.path(""), &query).await?.value;
        if eval_id.is_empty() {
            return Ok(Exit::SUCCESS);
        }
        if self.detach {
            session.out.data(&eval_id)?;
            return Ok(Exit::SUCCESS);
        }
        let length = Length::new(self.verbose);
        Monitor::new(session, client, length).watch(&eval_id).await
    }
}

/// Asks whether the job that was found is the one that was meant.
fn agreed(session: &Session, id: &str) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage_hint(
            format!("the only job that begins so is {id:?}"),
            "give its whole id, or -yes",
        ));
    }
    session
        .out
        .note(&format!("Are you sure you want to stop job {id:?}? [y/N]"));
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
