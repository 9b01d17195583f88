//! `drover operator snapshot`: the cluster's state as a file.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, Subcommand};
use controlplane_state::RESTORE_BYTES_MAX;
use controlplane_state::checkpoint::{self, CheckpointSummary};
use futures::Stream;
use protocol_api::Operation as _;
use protocol_api::operator::{RestoreSnapshot, SaveSnapshot};
use protocol_client::{Client, Query};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};
use crate::render::snapshot as render;
use crate::render::time;
use crate::session::{Clock, PATIENCE_WHOLE_STATE, Session};

/// What is read of a file and sent at once.
const PIECE_BYTES: u64 = 256 * 1024;
/// How often progress is told where nobody watches a terminal, and where somebody does.
const NOTE_EVERY: Duration = Duration::from_secs(10);
const NOTE_EVERY_ON_A_TERMINAL: Duration = Duration::from_secs(1);

#[derive(Subcommand, Debug)]
pub(crate) enum SnapshotCommand {
    /// Write the cluster's state into a file
    Save(Save),
    /// Replace the cluster's state with a file's
    Restore(Restore),
    /// Show what a file holds; asks no server
    Inspect(Inspect),
}

#[derive(Args, Debug)]
pub(crate) struct Save {
    /// Any server's state will do, even without a leader
    #[arg(long)]
    stale: bool,
    /// The snapshot; drover-state-DATE-SECONDS.snap in this folder where not given
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: SnapshotFile,
}

#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// Also where no KEK of the server opens the snapshot's secrets: they stay shut
    #[arg(long)]
    force: bool,
    /// Leave client tokens out: an old snapshot brings revoked ones back
    #[arg(long)]
    without_tokens: bool,
    #[command(flatten)]
    file: SnapshotFile,
}

#[derive(Args, Debug)]
pub(crate) struct SnapshotFile {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl SnapshotCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Save(Save { stale, file }) => {
                let mut query = Query::new();
                if stale {
                    query = query.with("stale", "");
                }
                let file = file.unwrap_or_else(|| unnamed(&session.clock()));
                // Its first byte comes when all of it was verified.
                let client = session.client()?.with_patience(PATIENCE_WHOLE_STATE);
                save(&client, &query, &file).await?;
                let text = format!("State file written to: {}", file.display());
                session.out.data(&text)?;
            }
            Self::Restore(wanted) => restore(session, wanted).await?,
            Self::Inspect(Inspect { json, file }) => {
                let (summary, size) = look_into(&file.file)?;
                if json {
                    session.out.json(&render::json(&summary, size))?;
                } else {
                    session.out.data(&render::table(&summary, size))?;
                }
            }
        }
        Ok(Exit::SUCCESS)
    }
}

/// What a snapshot is called that was given no name.
fn unnamed(clock: &Clock) -> PathBuf {
    let seconds = clock.now.0 / 1_000_000_000;
    let day = clock.date(clock.now).chars().take(10).collect::<String>();
    format!("drover-state-{}-{seconds}.snap", day.replace('-', "")).into()
}

/// What a file holds, if it is whole; and its length.
fn look_into(file: &Path) -> Result<(CheckpointSummary, u64), Failure> {
    let failed = |source| Failure::ReadFile {
        path: file.to_owned(),
        source,
    };
    let opened = File::open(file).map_err(failed)?;
    let size = opened.metadata().map_err(failed)?.len();
    let summary =
        checkpoint::inspect(BufReader::new(opened)).map_err(|source| Failure::Snapshot {
            path: file.to_owned(),
            source,
        })?;
    Ok((summary, size))
}

/// Writes a snapshot beside `file`, reads it back to its checksum, and puts it there only then; a
/// file that is there already is not replaced.
async fn save(client: &Client, query: &Query, file: &Path) -> Result<(), Failure> {
    let failed = |source| Failure::WriteFile {
        path: file.to_owned(),
        source,
    };
    if file.exists() {
        return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
    }
    let mut stream = client.stream(&SaveSnapshot.path(), query).await?;
    // A name that nobody could have laid a link or a file under.
    let mut partial = file.as_os_str().to_owned();
    partial.push(format!(".{}.partial", uuid::Uuid::new_v4().simple()));
    let partial = PathBuf::from(partial);
    // From here on an end would leave half a file behind.
    let mut ends = Ends::new()?;
    // It holds the digests of access tokens.
    let mut output = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)
        .map_err(failed)?;
    let write = async {
        while let Some(bytes) = stream.next().await? {
            output.write_all(&bytes).map_err(failed)?;
        }
        output.sync_all().map_err(failed)?;
        look_into(&partial)?;
        put_in_place(&partial, file).map_err(failed)?;
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or_else(|| Path::new("."))).map_err(failed)?;
        folder.sync_all().map_err(failed)
    };
    let written = tokio::select! {
        written = write => written,
        number = ends.next() => {
            let path = file.to_owned();
            // As a shell tells of a process that a signal ended.
            Err(Failure::Interrupted { path }.with_code(128 + number))
        }
    };
    if written.is_err() {
        // Half a snapshot must not be taken for one.
        let _ = std::fs::remove_file(&partial);
    }
    written
}

/// Signals that would end the process: of a person, of a service manager, of a closed terminal.
struct Ends(Vec<(Signal, u8)>);

impl Ends {
    /// From now on they are told instead. Those that are ignored stay so: `nohup` means it.
    fn new() -> Result<Self, Failure> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0);
        let mut all = Vec::new();
        for (kind, number) in [
            (SignalKind::hangup(), 1),
            (SignalKind::interrupt(), 2),
            (SignalKind::terminate(), 15),
        ] {
            if mask >> (number - 1) & 1 == 0 {
                let what = "watching for signals";
                let watched = signal(kind).map_err(|source| Failure::Host { what, source })?;
                all.push((watched, number));
            }
        }
        Ok(Self(all))
    }

    /// The number of the next that comes.
    async fn next(&mut self) -> u8 {
        let each = self.0.iter_mut().map(|(signal, number)| {
            Box::pin(async move {
                signal.recv().await;
                *number
            })
        });
        let each: Vec<_> = each.collect();
        if each.is_empty() {
            return std::future::pending().await;
        }
        futures::future::select_all(each).await.0
    }
}

/// Gives a file its name; unlike a rename, it replaces nothing that was made meanwhile.
fn put_in_place(partial: &Path, file: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match rustix::fs::link(partial, file) {
        Ok(()) => std::fs::remove_file(partial),
        // A file system without hard links: there the rename can be told to replace nothing.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(renameat_with(
            CWD,
            partial,
            CWD,
            file,
            RenameFlags::NOREPLACE,
        )?),
        Err(error) => Err(error.into()),
    }
}

async fn restore(session: &Session, wanted: Restore) -> Result<(), Failure> {
    let Restore {
        force,
        without_tokens,
        file: SnapshotFile { file },
    } = wanted;
    let mut query = Query::new();
    for (name, is_on) in [("force", force), ("without_tokens", without_tokens)] {
        if is_on {
            query = query.with(name, true);
        }
    }
    let (summary, size) = look_into(&file)?;
    if size > RESTORE_BYTES_MAX {
        return Err(Failure::usage(format!(
            "{} has {}: at most {} are restored",
            file.display(),
            time::bytes(size),
            time::bytes(RESTORE_BYTES_MAX),
        )));
    }
    session.out.note(&format!(
        "==> sending {}: {} of a state at index {}",
        file.display(),
        time::bytes(size),
        summary.index
    ));
    let opened = File::open(&file).map_err(|source| Failure::ReadFile {
        path: file.clone(),
        source,
    })?;
    let every = if std::io::stderr().is_terminal() {
        NOTE_EVERY_ON_A_TERMINAL
    } else {
        NOTE_EVERY
    };
    let client = session.client()?;
    let (sent, progress) = tokio::sync::watch::channel(0);
    let body = pieces(opened, size, sent);
    let path = RestoreSnapshot.path();
    let answer = client.put_stream(&path, &query, size, body);
    tokio::pin!(answer);
    let begun = Instant::now();
    let answer = loop {
        match tokio::time::timeout(every, &mut answer).await {
            Ok(answer) => break answer?,
            Err(_) => session
                .out
                .note(&told(*progress.borrow(), size, begun.elapsed())),
        }
    };
    session.out.data("Snapshot restored")?;
    session.out.note(&afterwards(answer.index));
    Ok(())
}

fn told(sent: u64, size: u64, elapsed: Duration) -> String {
    if sent < size {
        let percent = sent * 100 / size.max(1);
        return format!("    sent {} ({percent} %)", time::bytes(sent));
    }
    format!(
        "    sent; the servers take it over ({} s so far)",
        elapsed.as_secs()
    )
}

fn afterwards(index: u64) -> String {
    format!(
        "==> the cluster goes on from index {index}, as another incarnation\n    \
         Nodes report anew within a minute and are `initializing` until then: `drover node status`\n    \
         Access tokens are those of the snapshot; nodes that it does not know need the join token\n    \
         What runs on a node and is not in the snapshot goes on there, unknown to the scheduler"
    )
}

/// The file, piece by piece.
fn pieces(
    file: File,
    size: u64,
    sent: tokio::sync::watch::Sender<u64>,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    futures::stream::try_unfold((file, sent), move |(mut file, sent)| async move {
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = Vec::new();
            let read = std::io::Read::by_ref(&mut file)
                .take(PIECE_BYTES)
                .read_to_end(&mut piece);
            read.map(|_| (file, piece))
        });
        let (file, piece) = read.await.map_err(std::io::Error::other)??;
        if piece.is_empty() {
            return Ok(None);
        }
        sent.send_modify(|count| *count = (*count + piece.len() as u64).min(size));
        Ok(Some((Bytes::from(piece), (file, sent))))
    })
}
