//! `drover alloc logs`.

use clap::Args;
use protocol_client::Query;

use super::target;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Lines that `-tail` shows.
const LINES_DEFAULT: u64 = 10;
/// How many bytes a line is taken to have, when the last lines are fetched.
const LINE_BYTES: u64 = 512;
/// The most that is fetched for the last lines.
const TAIL_BYTES_MAX: u64 = 16 * 1024 * 1024;

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
}

/// Which part of a log is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Whole,
    LastBytes(u64),
    LastLines(usize),
}

impl Logs {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let group = self.group.as_deref();
        let alloc = target::allocation(&client, &self.target, self.job, group).await?;
        let named = self.task_name.as_deref().or(self.task.as_deref());
        let task = target::task(&alloc, named)?;
        let part = self.part();
        let stream = if self.stderr { "stderr" } else { "stdout" };
        let mut query = Query::new()
            .with("task", task)
            .with("type", stream)
            .with("follow", self.follow)
            .with("plain", true);
        query = match part {
            Part::Whole => query.with("origin", "start"),
            Part::LastBytes(count) => query.with("origin", "end").with("offset", count),
            Part::LastLines(count) => {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                let bytes = count.saturating_mul(LINE_BYTES).min(TAIL_BYTES_MAX);
                query.with("origin", "end").with("offset", bytes)
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

    fn part(&self) -> Part {
        match (self.bytes, self.lines, self.tail) {
            (Some(bytes), _, _) => Part::LastBytes(bytes),
            (None, Some(lines), _) => Part::LastLines(usize::try_from(lines).unwrap_or(usize::MAX)),
            (None, None, true) => {
                Part::LastLines(usize::try_from(LINES_DEFAULT).unwrap_or(usize::MAX))
            }
            (None, None, false) => Part::Whole,
        }
    }
}

impl Part {
    /// The last lines of `text`, where lines are wanted.
    fn cut(self, text: &[u8]) -> &[u8] {
        let Self::LastLines(count) = self else {
            return text;
        };
        if count == 0 {
            return &[];
        }
        // A newline at the very end ends the last line and begins none.
        let body = text.strip_suffix(b"\n").unwrap_or(text);
        let newlines = body
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, byte)| **byte == b'\n');
        match newlines.map(|(offset, _)| offset).nth(count - 1) {
            Some(offset) => &text[offset + 1..],
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_cut_out() {
        let text = b"one\ntwo\nthree\n";
        assert_eq!(Part::LastLines(1).cut(text), b"three\n");
        assert_eq!(Part::LastLines(2).cut(text), b"two\nthree\n");
        assert_eq!(Part::LastLines(9).cut(text), text);
        assert_eq!(Part::LastLines(0).cut(text), b"");
        assert_eq!(Part::LastLines(1).cut(b"one\ntwo"), b"two");
        assert_eq!(Part::Whole.cut(text), text);
    }
}
