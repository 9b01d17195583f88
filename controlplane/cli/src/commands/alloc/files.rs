//! `drover alloc fs`: a folder is listed, a file is shown.

use std::time::Duration;

use clap::Args;
use protocol_api::Operation as _;
use protocol_api::client::{ListFiles, ReadFileAt, StatFile};
use protocol_client::{Client, Query};
use protocol_model::FileInfo;

use super::tail::Part;
use super::target;
use crate::failure::{Exit, Failure};
use crate::listing::Form;
use crate::render::columns::Columns;
use crate::render::time;
use crate::session::{Clock, Session};

/// How often a followed file is asked for more.
const FOLLOW_PAUSE: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(crate) struct Files {
    /// The allocation's id, or its beginning; with -job a job
    #[arg(value_name = "ALLOC")]
    target: String,
    /// The file or folder in the allocation's folder
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    /// Sizes in bytes
    #[arg(short = 'H', long)]
    machine: bool,
    /// Only what it is
    #[arg(long)]
    stat: bool,
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
    /// Answer of the API
    #[arg(long)]
    json: bool,
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

impl Files {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let alloc =
            target::allocation(&client, &self.target, self.job, self.group.as_deref()).await?;
        let id = alloc.id.to_string();
        let query = Query::new().with("path", &self.path);
        let form = Form::new(self.json);
        let clock = session.clock();
        let stat = StatFile { id: &id };
        if self.stat {
            let render = |file| self.table(&[file], false, &clock);
            session.show(&client, (&stat, &query), form, render).await?;
            return Ok(Exit::SUCCESS);
        }
        let found = client.call(&stat, &query).await?.value;
        if found.is_dir {
            let list = (&ListFiles { id: &id }, &query);
            let render = |files: Vec<FileInfo>| self.table(&files, true, &clock);
            session.show(&client, list, form, render).await?;
            return Ok(Exit::SUCCESS);
        }
        self.read(session, &client, &id, found.size).await
    }

    async fn read(
        &self,
        session: &Session,
        client: &Client,
        id: &str,
        size: u64,
    ) -> Result<Exit, Failure> {
        let part = Part::wanted(self.bytes, self.lines, self.tail);
        let mut wanted = part.bytes();
        let mut offset = size.saturating_sub(wanted);
        let mut held = matches!(part, Part::LastLines(_)).then(Vec::new);
        let path = ReadFileAt { id }.path();
        loop {
            let query = Query::new().with("path", &self.path).with("offset", offset);
            let mut stream = client.stream(&path, &query).await?;
            while let Some(bytes) = stream.next().await? {
                offset += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                match &mut held {
                    Some(held) => held.extend_from_slice(&bytes),
                    None => session.out.bytes(&bytes)?,
                }
            }
            // The last lines are known once the file has been read to its end.
            if let Some(text) = held.take() {
                if let Some(more) = part.more(&text, wanted) {
                    wanted = more;
                    offset = size.saturating_sub(wanted);
                    held = Some(Vec::new());
                    continue;
                }
                session.out.bytes(part.cut(&text))?;
            }
            if !self.follow {
                return Ok(Exit::SUCCESS);
            }
            tokio::time::sleep(FOLLOW_PAUSE).await;
        }
    }
}

impl Files {
    fn table(&self, list: &[FileInfo], is_list: bool, clock: &Clock) -> String {
        let mut heading = vec!["Mode", "Size", "Modified Time"];
        if !is_list {
            heading.push("Content Type");
        }
        heading.push("Name");
        let mut table = Columns::new(&heading);
        for file in list {
            let size = match self.machine {
                true => file.size.to_string(),
                false => time::bytes(file.size),
            };
            let name = match file.is_dir {
                true => format!("{}/", file.name.trim_end_matches('/')),
                false => file.name.clone(),
            };
            let mut cells = vec![file.file_mode.clone(), size, modified(file, clock)];
            if !is_list {
                cells.push(file.content_type.clone());
            }
            cells.push(name);
            table.row(cells);
        }
        table.render()
    }
}

/// When a file was last written, as other times are shown.
fn modified(file: &FileInfo, clock: &Clock) -> String {
    file.mod_time.map_or_else(String::new, |at| clock.date(at))
}
