//! `drover alloc logs`.

use clap::Args;
use protocol_api::Operation as _;
use protocol_api::client::ReadLogs;
use protocol_client::{Client, Query};

use super::frames::{Frames, Place};
use super::tail::Part;
use super::target;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// What may be written between two looks at the end without lines being missed. Where it is more,
/// what is shown begins later: those lines are not the last ones any more.
const MEANWHILE_BYTES: u64 = 64 * 1024;

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
    /// How many lines of the end, of 16 MiB at most
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
        let source = Source {
            session,
            client: &client,
            path: ReadLogs {
                id: &alloc.id.to_string(),
            }
            .path(),
            query: Query::new().with("task", task).with("type", stream),
        };
        match part {
            Part::LastLines(count) if count > 0 => source.lines(part, self.follow).await,
            Part::LastLines(_) | Part::LastBytes(_) => {
                let query = source.end(part.bytes());
                source.copy(query, self.follow).await
            }
            Part::Whole => {
                let query = source.query.clone().with("origin", "start");
                source.copy(query, self.follow).await
            }
        }
    }
}

/// A task's output.
struct Source<'s> {
    session: &'s Session,
    client: &'s Client,
    path: String,
    query: Query,
}

impl Source<'_> {
    /// The query for the last bytes.
    fn end(&self, bytes: u64) -> Query {
        let query = self.query.clone().with("origin", "end");
        query.with("offset", bytes)
    }

    /// Shows what comes, as it is.
    async fn copy(&self, query: Query, follow: bool) -> Result<Exit, Failure> {
        let query = query.with("follow", follow).with("plain", true);
        let mut stream = self.client.stream(&self.path, &query).await?;
        while let Some(bytes) = stream.next().await? {
            self.session.out.bytes(&bytes)?;
        }
        Ok(Exit::SUCCESS)
    }

    /// Shows the last lines, and perhaps what follows. Which lines are the last is known only with
    /// all of the end at hand: it is fetched for itself.
    async fn lines(&self, part: Part, follow: bool) -> Result<Exit, Failure> {
        let mut wanted = part.bytes();
        let (text, place) = loop {
            let (text, place) = self.fetch(wanted).await?;
            match part.more(&text, wanted) {
                Some(more) => wanted = more,
                None => break (text, place),
            }
        };
        if !follow {
            self.session.out.bytes(part.cut(&text))?;
            return Ok(Exit::SUCCESS);
        }
        self.follow(part, wanted, place).await
    }

    /// The last bytes, and where they end; nowhere, where there is no output yet.
    async fn fetch(&self, bytes: u64) -> Result<(Vec<u8>, Option<Place>), Failure> {
        let query = self.end(bytes).with("follow", false);
        let mut stream = self.client.stream(&self.path, &query).await?;
        let (mut frames, mut text, mut place) = (Frames::default(), Vec::new(), None);
        while let Some(bytes) = stream.next().await? {
            for frame in frames.take(&bytes)? {
                if !frame.data.is_empty() {
                    place = Some(frame.end());
                    text.extend_from_slice(&frame.data);
                }
            }
        }
        Ok((text, place))
    }

    /// The last lines before `place`, and all that comes after it.
    async fn follow(&self, part: Part, bytes: u64, place: Option<Place>) -> Result<Exit, Failure> {
        let query = self.end(bytes.saturating_add(MEANWHILE_BYTES));
        let query = query.with("follow", true);
        let mut stream = self.client.stream(&self.path, &query).await?;
        let mut frames = Frames::default();
        let mut held = place.map(|place| (place, Vec::new()));
        while let Some(bytes) = stream.next().await? {
            for frame in frames.take(&bytes)? {
                let Some((place, text)) = &mut held else {
                    self.session.out.bytes(&frame.data)?;
                    continue;
                };
                let (before, after) = frame.data.split_at(frame.before(*place));
                text.extend_from_slice(before);
                if !frame.data.is_empty() && frame.end() >= *place {
                    self.session.out.bytes(part.cut(text))?;
                    self.session.out.bytes(after)?;
                    held = None;
                }
            }
        }
        if let Some((_, text)) = held {
            self.session.out.bytes(part.cut(&text))?;
        }
        Ok(Exit::SUCCESS)
    }
}
