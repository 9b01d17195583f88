//! `drover job restart`: restarts the tasks of a job's allocations, batch after batch. The loop
//! runs here: it ends with this program.

use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use protocol_api::allocations::{ReadAllocation, StopAllocation};
use protocol_api::client::{RestartAllocation, RestartRequest};
use protocol_api::jobs::{JobAllocations, ReadJob};
use protocol_client::{Client, Query};
use protocol_model::{
    AllocationListStub, ClientStatus, DesiredStatus, Job, TaskRunState, duration,
};
use tokio::time::{Instant, sleep};

use crate::asking;
use crate::failure::{Exit, Failure};
use crate::find::{self, Length, shown};
use crate::session::Session;

/// How long a stopped allocation's successor may take to run.
const SUCCESSOR_TIMEOUT: Duration = Duration::from_secs(300);
/// Between two looks at a successor.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("tasks").args(["task", "all_tasks", "reschedule"])))]
pub(crate) struct Restart {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// All tasks, also those that have ended
    #[arg(long)]
    all_tasks: bool,
    /// Allocations that are restarted at a time: a number, or a share such as 20%
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = batch_size)]
    batch_size: BatchSize,
    /// The time between two batches, or `ask`
    #[arg(long, value_name = "WAIT", default_value = "0s", value_parser = batch_wait)]
    batch_wait: BatchWait,
    /// Only allocations of this group; may be repeated
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Only this task; may be repeated
    #[arg(long, value_name = "TASK")]
    task: Vec<String>,
    /// Do not wait for shutdown_delay; with -reschedule
    #[arg(long, requires = "reschedule")]
    no_shutdown_delay: bool,
    /// Stop each allocation and wait for its successor instead of restarting tasks in place
    #[arg(long)]
    reschedule: bool,
    /// Effect of an error: `ask`, or `fail`, which ends the command
    #[arg(long, value_name = "ACTION", default_value = "ask")]
    on_error: OnError,
    /// Answer every question with yes
    #[arg(long)]
    yes: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum OnError {
    Ask,
    Fail,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BatchSize {
    Number(usize),
    /// 1 to 100.
    Percent(usize),
}

impl BatchSize {
    /// At least one.
    fn of(self, all: usize) -> usize {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => (all * percent).div_ceil(100).max(1),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BatchWait {
    Ask,
    Pause(Duration),
}

fn batch_size(text: &str) -> Result<BatchSize, String> {
    let wrong = || format!("{text:?} is neither a number above 0 nor 1% to 100%");
    let size = match text.strip_suffix('%') {
        Some(percent) => BatchSize::Percent(percent.parse().map_err(|_| wrong())?),
        None => BatchSize::Number(text.parse().map_err(|_| wrong())?),
    };
    match size {
        BatchSize::Number(0) | BatchSize::Percent(0 | 101..) => Err(wrong()),
        BatchSize::Number(_) | BatchSize::Percent(_) => Ok(size),
    }
}

fn batch_wait(text: &str) -> Result<BatchWait, String> {
    if text == "ask" {
        return Ok(BatchWait::Ask);
    }
    let pause = duration::parse_go(text);
    pause
        .map(BatchWait::Pause)
        .map_err(|error| error.to_string())
}

impl Restart {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let id = name.id.as_str();
        let job = client.call(&ReadJob { id }, &name.query()).await?.value;
        self.check(&job)?;
        let list = JobAllocations { id };
        let mut allocs = client.call(&list, &name.query()).await?.value;
        allocs.retain(|alloc| self.is_meant(alloc));
        allocs.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        if allocs.is_empty() {
            session.out.data("No allocations to restart")?;
            return Ok(Exit::SUCCESS);
        }
        let (count, length) = (allocs.len(), Length::new(self.verbose));
        let plural = if count == 1 { "" } else { "s" };
        session
            .out
            .data(&format!("==> Restarting {count} allocation{plural}"))?;
        let batches: Vec<_> = allocs.chunks(self.batch_size.of(count)).collect();
        let mut failed = 0;
        for (number, batch) in batches.iter().enumerate() {
            if number > 0 && !self.goes_on(session).await? {
                return Ok(Exit::NO);
            }
            let restarts = batch
                .iter()
                .map(|alloc| self.one(session, &client, alloc, length));
            for result in join_all(restarts).await {
                let Err(failure) = result else { continue };
                failed += 1;
                if self.on_error == OnError::Fail {
                    return Err(failure);
                }
                session.out.failure(&failure);
                if !self.agreed(session, "Proceed with the next batch?")? {
                    return Ok(Exit::NO);
                }
            }
        }
        session.out.data("==> Job restart finished\n")?;
        if failed > 0 {
            let message = format!("{failed} of {count} allocations were not restarted");
            return Err(Failure::usage(message));
        }
        session.out.data("Job restarted successfully!")?;
        Ok(Exit::SUCCESS)
    }

    /// Whether the job has what the flags name.
    fn check(&self, job: &Job) -> Result<(), Failure> {
        for group in &self.group {
            if job.task_group(group).is_none() {
                let message = format!("group {group:?} not found in job {:?}", job.id);
                return Err(Failure::usage(message));
            }
        }
        for task in &self.task {
            let mut tasks = job.task_groups.iter().flat_map(|group| &group.tasks);
            if !tasks.any(|known| known.name == *task) {
                let message = format!("task {task:?} not found in job {:?}", job.id);
                return Err(Failure::usage(message));
            }
        }
        if self.reschedule && job.job_type.is_per_node() {
            let message = format!("{} jobs cannot be rescheduled", job.job_type);
            return Err(Failure::usage(message));
        }
        Ok(())
    }

    fn is_meant(&self, alloc: &AllocationListStub) -> bool {
        let in_group = self.group.is_empty() || self.group.contains(&alloc.task_group);
        let has_task = self.task.is_empty() || self.tasks_of(alloc).next().is_some();
        let runs = alloc.client_status == ClientStatus::Running
            && alloc.desired_status == DesiredStatus::Run;
        in_group && has_task && runs
    }

    /// The named tasks that run in the allocation.
    fn tasks_of<'a>(&'a self, alloc: &'a AllocationListStub) -> impl Iterator<Item = &'a String> {
        self.task.iter().filter(|name| {
            let state = alloc.task_states.get(*name);
            state.is_some_and(|state| state.state == TaskRunState::Running)
        })
    }

    async fn one(
        &self,
        session: &Session,
        client: &Client,
        alloc: &AllocationListStub,
        length: Length,
    ) -> Result<(), Failure> {
        let id = &alloc.id.to_string();
        let (shown_id, group) = (shown(id, length), &alloc.task_group);
        if self.reschedule {
            let text = format!("    Rescheduling allocation {shown_id:?} for group {group:?}");
            session.out.data(&text)?;
            return self.replace(session, client, id, length).await;
        }
        let restart = async |task_name: &str| {
            let request = RestartRequest {
                task_name: task_name.to_owned(),
                all_tasks: self.all_tasks,
            };
            let restart = RestartAllocation { id };
            client.call_with(&restart, &Query::new(), &request).await
        };
        if self.task.is_empty() {
            let which = if self.all_tasks { "all" } else { "running" };
            session.out.data(&format!(
                "    Restarting {which} tasks in allocation {shown_id:?} for group {group:?}"
            ))?;
            restart("").await?;
        }
        for task in self.tasks_of(alloc) {
            session.out.data(&format!(
                "    Restarting task {task:?} in allocation {shown_id:?} for group {group:?}"
            ))?;
            restart(task).await?;
        }
        Ok(())
    }

    /// Stops an allocation and waits until its successor runs.
    async fn replace(
        &self,
        session: &Session,
        client: &Client,
        id: &str,
        length: Length,
    ) -> Result<(), Failure> {
        let query = Query::new().with("no_shutdown_delay", self.no_shutdown_delay);
        client.call(&StopAllocation { id }, &query).await?;
        let deadline = Instant::now() + SUCCESSOR_TIMEOUT;
        let mut next: Option<String> = None;
        while Instant::now() < deadline {
            let read = ReadAllocation {
                id: next.as_deref().unwrap_or(id),
            };
            let alloc = client.call(&read, &Query::new()).await?.value;
            match (&next, alloc.client_status) {
                (None, _) => next = alloc.next_allocation.map(|id| id.to_string()),
                (Some(next), ClientStatus::Running) => {
                    let (old, new) = (shown(id, length), shown(next, length));
                    let text = format!("    Allocation {new:?} runs in place of {old:?}");
                    return session.out.data(&text);
                }
                (Some(next), ClientStatus::Failed | ClientStatus::Lost) => {
                    let message = format!("allocation {next}, the successor of {id}, failed");
                    return Err(Failure::usage(message));
                }
                (Some(_), _) => {}
            }
            sleep(LOOK_PAUSE).await;
        }
        let message = format!("no successor of allocation {id} runs after {SUCCESSOR_TIMEOUT:?}");
        Err(Failure::usage(message))
    }

    /// The pause between two batches.
    async fn goes_on(&self, session: &Session) -> Result<bool, Failure> {
        match self.batch_wait {
            BatchWait::Ask => self.agreed(session, "Proceed with the next batch?"),
            BatchWait::Pause(pause) => {
                sleep(pause).await;
                Ok(true)
            }
        }
    }

    fn agreed(&self, session: &Session, question: &str) -> Result<bool, Failure> {
        if self.yes {
            return Ok(true);
        }
        let unasked = Failure::usage_hint(
            "a question cannot be asked without a terminal",
            "give -yes, or -on-error=fail and a -batch-wait that is a time",
        );
        asking::agreed(session, question, unasked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_a_number_or_a_share_of_at_least_one() {
        assert_eq!(batch_size("3").map(|it| it.of(10)), Ok(3));
        assert_eq!(batch_size("25%").map(|it| it.of(10)), Ok(3));
        assert_eq!(batch_size("1%").map(|it| it.of(10)), Ok(1));
        for wrong in ["0", "0%", "101%", "x", "-1", ""] {
            batch_size(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn the_pause_of_batches_is_a_duration_or_a_question() {
        assert_eq!(batch_wait("ask"), Ok(BatchWait::Ask));
        let minute = Duration::from_secs(60);
        assert_eq!(batch_wait("1m"), Ok(BatchWait::Pause(minute)));
        batch_wait("soon").expect_err("no duration");
    }
}
