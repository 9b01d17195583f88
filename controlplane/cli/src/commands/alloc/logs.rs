//! `drover alloc logs`.

use clap::Args;
use protocol_client::Query;

use super::tail::Part;
use super::target;
use crate::failure::{Exit, Failure};
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Logs {
    /// The allocation's id, or its beginning; with -job a job
    #[arg(value_name = "ALLOC")]
    target: String,
    /// The task; needed where there are several
    #[arg(value_name = "TASK")]
    task_name: Option<String>,
    /// The task, named by a flag
    #[arg(long, value_name = "TASK", conflicts_with = "task_name")]
    task: Option<String>,
    /// stdout; this is the default
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// stderr instead
    #[arg(long)]
    stderr: bool,
    /// Keep showing what comes
    #[arg(short = 'f')]
    follow: bool,
    /// Only the end
    #[arg(long)]
    tail: bool,
    /// How many lines of the end
    #[arg(short = 'n', value_name = "LINES")]
    lines: Option<u64>,
    /// How many bytes of the end
    #[arg(short = 'c', value_name = "BYTES", conflicts_with = "lines")]
    bytes: Option<u64>,
    /// The target is a job; its newest allocation is meant
    #[arg(long)]
    job: bool,
    /// With -job: of this group
    #[arg(long, requires = "job")]
    group: Option<String>,
    /// Accepted: ids are not shown
    #[arg(long, hide = true)]
    verbose: bool,
}

impl Logs {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let group = self.group.as_deref();
        let alloc = target::allocation(&client, &self.target, self.job, group).await?;
        let named = self.task_name.as_deref().or(self.task.as_deref());
        let task = target::task(&alloc, named)?;
        let part = Part::wanted(self.bytes, self.lines, self.tail);
        let stream = if self.stderr { "stderr" } else { "stdout" };
        let mut query = Query::new()
            .with("task", task)
            .with("type", stream)
            .with("follow", self.follow)
            .with("plain", true);
        query = match part {
            Part::Whole => query.with("origin", "start"),
            Part::LastBytes(_) | Part::LastLines(_) => {
                query.with("origin", "end").with("offset", part.bytes())
            }
        };
        let path = format!("/v1/client/fs/logs/{}", alloc.id);
        let mut stream = client.stream(&path, &query).await?;
        let mut held: Vec<u8> = Vec::new();
        let mut holds = matches!(part, Part::LastLines(_));
        while let Some(bytes) = stream.next().await? {
            if !holds {
                session.out.bytes(&bytes)?;
                continue;
            }
            held.extend_from_slice(&bytes);
            // What a follower gets first is the end that it asked for.
            if self.follow && !held.is_empty() {
                session.out.bytes(part.cut(&held))?;
                holds = false;
            }
        }
        if holds {
            session.out.bytes(part.cut(&held))?;
        }
        Ok(Exit::SUCCESS)
    }
}
