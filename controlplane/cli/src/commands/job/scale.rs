//! `drover job scale` and `job scaling-events`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::Args;
use protocol_api::jobs::{JobScale, ReadJob, ReadJobScale, ScaleJob, ScaleRequest};

use crate::failure::{Exit, Failure};
use crate::find::{self, Length, shown};
use crate::monitor::Monitor;
use crate::render::columns::Columns;
use crate::session::{Clock, Session};

#[derive(Args, Debug)]
pub(crate) struct Scale {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// The group and the new count; the count alone where the job has one group
    #[arg(value_name = "GROUP] [COUNT", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// Only if the job's modify index is this one
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
    /// Return once the count is registered; prints the evaluation's id
    #[arg(long)]
    detach: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

impl Scale {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let (group, count) = match self.what.as_slice() {
            [count] => (None, count),
            [group, count] => (Some(group.clone()), count),
            _ => return Err(Failure::usage("a group and a count are needed")),
        };
        let count: i64 = count
            .parse()
            .map_err(|_| Failure::usage(format!("the count is no number: {count:?}")))?;
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let id = name.id.as_str();
        let group = match group {
            Some(group) => group,
            None => {
                let job = client.call(&ReadJob { id }, &name.query()).await?.value;
                match job.task_groups.as_slice() {
                    [only] => only.name.clone(),
                    _ => {
                        let message = format!("job {id:?} has several groups: name one of them");
                        return Err(Failure::usage(message));
                    }
                }
            }
        };
        let request = ScaleRequest {
            count: Some(count),
            target: BTreeMap::from([("Group".to_owned(), group)]),
            message: "submitted using the Drover CLI".to_owned(),
            job_modify_index: self.check_index.unwrap_or(0),
            ..ScaleRequest::default()
        };
        let scale = ScaleJob { id };
        let answer = client.call_with(&scale, &name.query(), &request).await?;
        let eval = answer.value.eval_id;
        if eval.is_empty() {
            return Ok(Exit::SUCCESS);
        }
        if self.detach {
            session.out.data(&format!("Evaluation ID: {eval}"))?;
            return Ok(Exit::SUCCESS);
        }
        let length = Length::new(self.verbose);
        Monitor::new(session, &client, length).watch(&eval).await
    }
}

#[derive(Args, Debug)]
pub(crate) struct ScalingEvents {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// Errors, messages and whole evaluations, too
    #[arg(long)]
    verbose: bool,
}

impl ScalingEvents {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let read = ReadJobScale { id: &name.id };
        let scale = client.call(&read, &name.query()).await?.value;
        let length = Length::new(self.verbose);
        session
            .out
            .data(events(&scale, length, &session.clock()).trim_end())?;
        Ok(Exit::SUCCESS)
    }
}

/// The events of all groups, the newest first.
fn events(scale: &JobScale, length: Length, clock: &Clock) -> String {
    let groups = scale.task_groups.iter();
    let mut all: Vec<_> = groups
        .flat_map(|(name, group)| group.events.iter().map(move |event| (name, event)))
        .collect();
    if all.is_empty() {
        return "No events found".to_owned();
    }
    all.sort_by_key(|(_, event)| Reverse(event.create_index));
    let mut heading = vec!["Task Group", "Count", "PrevCount"];
    if length == Length::Whole {
        heading.extend(["Error", "Message", "Eval ID"]);
    }
    heading.push("Date");
    let mut table = Columns::new(&heading);
    for (group, event) in all {
        let count = event
            .count
            .map_or_else(String::new, |count| count.to_string());
        let mut cells = vec![group.clone(), count, event.previous_count.to_string()];
        if length == Length::Whole {
            let eval = event.eval_id.as_deref().unwrap_or_default();
            let message = event.message.clone();
            cells.extend([event.error.to_string(), message, shown(eval, length)]);
        }
        cells.push(clock.date(event.time));
        table.row(cells);
    }
    table.render()
}
