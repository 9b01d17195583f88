//! One artifact, from its request to the staged file or tree.

use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom, Write};
use std::time::{Duration, Instant};

use crate::COPY_BYTES;
use crate::archive::{
    ArchiveError, ArchiveKind, Budget, Compression, EntryPath, Tree, decompressor, unpack_tar,
    unpack_zip,
};
use crate::checksum::{self, Checksum, ChecksumError, Digester, Sum};
use crate::error::FetchError;
use crate::git::{self, CLONE};
use crate::http::Client;
use crate::request::{FetchRequest, Fetched, Mode, Progress, Shape};
use crate::source::{Getter, Source, Url, is_plain_name, masked};
use crate::staging::{ARTIFACT, Staging};

/// The download, below the staging directory.
const DOWNLOAD: &str = "download";
/// The unpacked archive, below the staging directory.
const TREE: &str = "tree";
/// Progress is sent no more often.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Fetches one artifact into [`ARTIFACT`] below an empty staging directory. Blocks.
///
/// # Errors
/// Where the source makes no sense, cannot be fetched, has another checksum, or is refused.
pub fn fetch(
    request: &FetchRequest,
    staging: &Staging,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<Fetched, FetchError> {
    let source = Source::parse(&request.source, &request.options)?;
    let mut progress = Throttle {
        last: None,
        on_progress,
    };
    match &source.getter {
        Getter::Http => fetch_http(request, &source, staging, &mut progress),
        Getter::Git { .. } => fetch_git(request, &source, staging, &mut progress),
    }
}

fn fetch_git(
    request: &FetchRequest,
    source: &Source,
    staging: &Staging,
    progress: &mut Throttle<'_>,
) -> Result<Fetched, FetchError> {
    let Getter::Git {
        reference,
        depth,
        ssh_key,
    } = &source.getter
    else {
        return Err(mode(request, "the source is no repository"));
    };
    if request.mode == Mode::File {
        return Err(mode(request, "a git repository is a directory"));
    }
    if source.checksum.is_some() {
        let problem = "a git repository has no checksum; name a commit as ref";
        return Err(mode(request, problem));
    }
    progress.report(Progress::Cloning);
    let clone = git::Clone {
        url: &source.url,
        reference: reference.as_deref(),
        depth: *depth,
        ssh_key: ssh_key.as_deref(),
    };
    git::clone(&clone, request, staging)?;
    take_tree(source, staging, CLONE)?;
    Ok(Fetched {
        shape: Shape::Tree,
        bytes: 0,
    })
}

fn mode(request: &FetchRequest, problem: &'static str) -> FetchError {
    FetchError::Mode {
        mode: request.mode,
        problem,
    }
}

/// Makes a staged tree, or the part of it that is wanted, the artifact.
fn take_tree(source: &Source, staging: &Staging, tree: &str) -> Result<(), FetchError> {
    let Some(subdirectory) = &source.subdirectory else {
        return Ok(staging.rename(tree, ARTIFACT)?);
    };
    if staging.take_directory(tree, subdirectory)? {
        return Ok(());
    }
    Err(FetchError::NoSubdirectory {
        subdirectory: subdirectory.clone(),
    })
}

fn fetch_http(
    request: &FetchRequest,
    source: &Source,
    staging: &Staging,
    progress: &mut Throttle<'_>,
) -> Result<Fetched, FetchError> {
    let not_a_url = |problem| crate::SourceError::NotAUrl {
        text: masked(&source.url),
        problem,
    };
    let url = Url::parse(&source.url).map_err(not_a_url)?;
    let plan = Plan::of(request, source, &url)?;
    let expected = source
        .checksum
        .as_deref()
        .map(Checksum::parse)
        .transpose()?;
    let sums = match &expected {
        Some(Checksum::ListedAt(text)) => Some(Url::parse(text).map_err(not_a_url)?),
        _ => None,
    };
    let named: Vec<&Url> = [&url].into_iter().chain(&sums).collect();
    let client = Client::new(request, &named);
    let expected = match (expected, &sums) {
        (Some(Checksum::Sum(sum)), _) => Some(sum),
        (_, Some(sums)) => Some(listed_sum(&client, sums, &url)?),
        _ => None,
    };
    let file = staging.create(DOWNLOAD)?;
    let mut sink = Hashed {
        file,
        digester: expected.map(Digester::new),
    };
    let bytes = client.download(&url, &mut sink, &mut |bytes, total| {
        progress.report(Progress::Downloading { bytes, total });
    })?;
    if let Some(digester) = sink.digester {
        digester.finish(&url.file_name())?;
    }
    let shape = plan.stage(request, source, staging, sink.file, progress)?;
    Ok(Fetched { shape, bytes })
}

fn listed_sum(client: &Client<'_>, sums: &Url, url: &Url) -> Result<Sum, FetchError> {
    let mut list = Bounded(Vec::new());
    client.download(sums, &mut list, &mut |_, _| {})?;
    let file = url.file_name();
    let sum = checksum::listed(&String::from_utf8_lossy(&list.0), &file);
    let sum = sum.ok_or_else(|| ChecksumError::NotListed {
        sums: masked(&sums.to_string()),
        file,
    })?;
    Ok(sum)
}

/// The use of a download.
enum Plan {
    /// It is the destination.
    File,
    /// It lies below the destination.
    Below(String),
    /// It is an archive of the destination's content.
    Unpack(ArchiveKind),
    /// It is an archive of one file, which is the destination.
    UnpackOne(ArchiveKind),
    /// It is a compressed file, which lies below the destination.
    Decompress(Compression, String),
}

impl Plan {
    fn of(request: &FetchRequest, source: &Source, url: &Url) -> Result<Self, FetchError> {
        if source.subdirectory.is_some()
            && (request.mode == Mode::File
                || !matches!(source.archive, Some(ArchiveKind::Tar(_) | ArchiveKind::Zip)))
        {
            return Err(mode(
                request,
                "a subdirectory needs an archive of a directory",
            ));
        }
        let name = || {
            let of_url = url.file_name();
            let name = source.filename.clone().unwrap_or(of_url);
            if is_plain_name(&name) {
                return Ok(name);
            }
            let problem = "the URL names no file; add filename to the options";
            Err(mode(request, problem))
        };
        Ok(match (request.mode, source.archive) {
            (Mode::File, None) => Self::File,
            (Mode::File, Some(kind)) => Self::UnpackOne(kind),
            (Mode::Any, None) => Self::Below(name()?),
            (Mode::Dir, None) => {
                let problem = "the URL is a single file; use mode any or file";
                return Err(mode(request, problem));
            }
            (Mode::Any, Some(ArchiveKind::Single(compression))) => {
                let packed = name()?;
                let name = match &source.filename {
                    Some(name) => name.clone(),
                    None => ArchiveKind::stem(&packed).to_owned(),
                };
                Self::Decompress(compression, name)
            }
            (Mode::Dir, Some(ArchiveKind::Single(_))) => {
                let problem = "the archive is a single file; use mode any or file";
                return Err(mode(request, problem));
            }
            (Mode::Any | Mode::Dir, Some(kind)) => Self::Unpack(kind),
        })
    }

    fn stage(
        self,
        request: &FetchRequest,
        source: &Source,
        staging: &Staging,
        file: File,
        progress: &mut Throttle<'_>,
    ) -> Result<Shape, FetchError> {
        let limits = &request.limits;
        let mut budget = Budget::new(limits.unpacked_bytes_max, limits.unpacked_entries_max);
        let mut unpacking = |bytes| progress.report(Progress::Unpacking { bytes });
        let shape = match self {
            Self::File => {
                Staging::finish_file(&file)?;
                staging.rename(DOWNLOAD, ARTIFACT)?;
                return Ok(Shape::File);
            }
            Self::Below(name) => {
                Staging::finish_file(&file)?;
                staging.tree(ARTIFACT)?;
                staging.rename(DOWNLOAD, &format!("{ARTIFACT}/{name}"))?;
                return Ok(Shape::Tree);
            }
            Self::Unpack(kind) => {
                let mut tree = staging.tree(TREE)?;
                unpack(kind, file, &mut tree, &mut budget, &mut unpacking)?;
                take_tree(source, staging, TREE)?;
                Shape::Tree
            }
            Self::UnpackOne(kind) => {
                let mut tree = staging.only_file()?;
                let done = unpack(kind, file, &mut tree, &mut budget, &mut unpacking);
                if let Some(found) = tree.problem().filter(|_| done.is_ok() || tree.is_refused()) {
                    return Err(ArchiveError::NotOneFile { found }.into());
                }
                done?;
                Shape::File
            }
            Self::Decompress(compression, name) => {
                let mut tree = staging.tree(ARTIFACT)?;
                let path = EntryPath::parse(name.as_bytes())?;
                let kind = ArchiveKind::Single(compression);
                let mut named = Named {
                    tree: &mut tree,
                    path,
                };
                unpack(kind, file, &mut named, &mut budget, &mut unpacking)?;
                Shape::Tree
            }
        };
        // Twice the room is not needed while the artifact is put in its place.
        staging.remove(DOWNLOAD)?;
        Ok(shape)
    }
}

/// Unpacks a download of any kind; a single file has no name of its own.
fn unpack(
    kind: ArchiveKind,
    mut file: File,
    tree: &mut dyn Tree,
    budget: &mut Budget,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), ArchiveError> {
    let reading = |source| ArchiveError::Stream {
        operation: "reading the archive".to_owned(),
        source,
    };
    file.seek(SeekFrom::Start(0)).map_err(reading)?;
    match kind {
        ArchiveKind::Zip => {
            let file = BufReader::with_capacity(COPY_BYTES, file);
            unpack_zip(file, tree, budget, on_bytes)
        }
        ArchiveKind::Tar(compression) => {
            let stream = decompressor(compression, file).map_err(reading)?;
            unpack_tar(stream, tree, budget, on_bytes)
        }
        ArchiveKind::Single(compression) => {
            let mut stream = decompressor(Some(compression), file).map_err(reading)?;
            unpack_single(&mut *stream, tree, budget, on_bytes)
        }
    }
}

fn unpack_single(
    stream: &mut dyn io::Read,
    tree: &mut dyn Tree,
    budget: &mut Budget,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), ArchiveError> {
    let Some(path) = EntryPath::parse(ARTIFACT.as_bytes())? else {
        return Ok(());
    };
    let mut content = budget.charged(stream, on_bytes);
    tree.file(&path, 0o644, None, &mut content)
        .map_err(ArchiveError::stream("decompressing the file"))
}

/// A tree of one file whose name does not come from the archive.
struct Named<'a> {
    tree: &'a mut dyn Tree,
    path: Option<EntryPath>,
}

impl Tree for Named<'_> {
    fn directory(&mut self, path: &EntryPath, mode: u32) -> io::Result<()> {
        self.tree.directory(path, mode)
    }

    fn file(
        &mut self,
        path: &EntryPath,
        mode: u32,
        modified: Option<u64>,
        content: &mut dyn io::Read,
    ) -> io::Result<()> {
        let path = self.path.as_ref().unwrap_or(path);
        self.tree.file(path, mode, modified, content)
    }

    fn symlink(&mut self, path: &EntryPath, target: &[u8]) -> io::Result<()> {
        self.tree.symlink(path, target)
    }

    fn hard_link(&mut self, path: &EntryPath, to: &EntryPath) -> io::Result<()> {
        self.tree.hard_link(path, to)
    }
}

/// A file whose bytes are digested as they are written.
struct Hashed {
    file: File,
    digester: Option<Digester>,
}

impl Write for Hashed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.file.write(buffer)?;
        if let Some(digester) = &mut self.digester {
            digester.update(&buffer[..count]);
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A list of sums in memory.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if (self.0.len() + buffer.len()) as u64 > checksum::SUMS_BYTES_MAX {
            return Err(io::Error::other("a list of checksums has at most 1 MiB"));
        }
        self.0.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reports at most four times a second.
struct Throttle<'a> {
    last: Option<Instant>,
    on_progress: &'a mut dyn FnMut(Progress),
}

impl Throttle<'_> {
    fn report(&mut self, progress: Progress) {
        let now = Instant::now();
        let is_due = self
            .last
            .is_none_or(|last| now.duration_since(last) >= PROGRESS_EVERY);
        if is_due {
            self.last = Some(now);
            (self.on_progress)(progress);
        }
    }
}
