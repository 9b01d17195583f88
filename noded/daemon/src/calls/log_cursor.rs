//! A place in a task's output: one stream of bytes over rotated files
//! `<task>.<stdout|stderr>.<number>`, which may lose files at its beginning while it is read, and
//! grow at its end.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use protocol_wire::v1;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::file_io::{FileIo, READ_BYTES_MAX, Reader};

/// Names that are looked at in a log directory. pump leaves two streams of some tasks there, with
/// `max_files` each; a task can put there what it likes.
const ENTRIES_MAX: usize = 100_000;

/// Where a stream's files are.
#[derive(Debug)]
pub(super) struct LogSource {
    pub(super) directory: Arc<OwnedFd>,
    /// `<task>.<stream>.`
    pub(super) prefix: String,
    /// How many files the stream has at most: the newest count.
    pub(super) files_max: usize,
    pub(super) io: FileIo,
}

/// A place in a stream.
#[derive(Debug)]
pub(super) struct LogCursor {
    source: LogSource,
    number: u64,
    /// `None` where the file was rotated away before it was opened.
    open: Option<OpenLog>,
    /// Later files that are known, oldest first.
    later: VecDeque<u64>,
    #[cfg(test)]
    listings: usize,
}

#[derive(Debug)]
struct OpenLog {
    reader: Reader,
    name: String,
    offset: u64,
}

/// What a look at the stream gives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Bytes, and where they are from.
    Chunk {
        file: String,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// The file was emptied beneath the reader, who begins at its start again.
    Truncated { file: String },
    /// Nothing more for now.
    AtEnd,
}

/// One file of a stream, as it was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LogFile {
    number: u64,
    size: u64,
}

impl LogCursor {
    /// The place where a request begins; the source again while the stream has no file yet.
    pub(super) async fn find(
        source: LogSource,
        origin: v1::Origin,
        offset: i64,
    ) -> io::Result<Result<Self, LogSource>> {
        let files = source.list(None).await?;
        let Some((number, offset)) = start(&files, origin, offset) else {
            return Ok(Err(source));
        };
        let open = source.open(number, offset).await?;
        let later = files.iter().map(|file| file.number);
        Ok(Ok(Self {
            source,
            number,
            open,
            later: later.filter(|later| *later > number).collect(),
            #[cfg(test)]
            listings: 1,
        }))
    }

    /// The next bytes. The directory is listed once for a pass over all files that it shows.
    pub(super) async fn next(&mut self) -> io::Result<Step> {
        let mut listed = false;
        loop {
            if let Some(OpenLog {
                reader,
                name,
                offset,
            }) = &mut self.open
            {
                let bytes = reader.read_at(*offset, READ_BYTES_MAX).await?;
                if !bytes.is_empty() {
                    let from = *offset;
                    *offset += bytes.len() as u64;
                    return Ok(Step::Chunk {
                        file: name.clone(),
                        offset: from,
                        bytes,
                    });
                }
                if reader.state().await?.size < *offset {
                    *offset = 0;
                    let file = name.clone();
                    return Ok(Step::Truncated { file });
                }
            }
            // Nothing is added to a file once a later one exists, and that was known before the
            // read that found nothing more.
            if let Some(next) = self.later.pop_front() {
                self.number = next;
                self.open = self.source.open(next, 0).await?;
            } else if listed {
                return Ok(Step::AtEnd);
            } else {
                self.list_later().await?;
                listed = true;
            }
        }
    }

    async fn list_later(&mut self) -> io::Result<()> {
        let files = self.source.list(Some(self.number)).await?;
        let later = files.iter().map(|file| file.number);
        self.later = later.filter(|later| *later > self.number).collect();
        #[cfg(test)]
        {
            self.listings += 1;
        }
        Ok(())
    }
}

impl LogSource {
    /// The files of the stream; `after` is the one that the reader has.
    async fn list(&self, after: Option<u64>) -> io::Result<Vec<LogFile>> {
        let files = self.list_once().await?;
        // Of two files that are made while a directory is read, it may show the second one alone
        // (readdir(3)). When it is read again, the first one is there, or was rotated away.
        match has_gap(&files, after) {
            true => self.list_once().await,
            false => Ok(files),
        }
    }

    async fn list_once(&self) -> io::Result<Vec<LogFile>> {
        let (directory, prefix) = (Arc::clone(&self.directory), self.prefix.clone());
        let files_max = self.files_max;
        let listed = self.io.beside(move || list(&directory, &prefix, files_max));
        let listed = listed.await?;
        listed.map_err(io::Error::from)
    }

    async fn open(&self, number: u64, offset: u64) -> io::Result<Option<OpenLog>> {
        let name = format!("{}{number}", self.prefix);
        let (directory, wanted) = (Arc::clone(&self.directory), name.clone());
        let opened = self.io.beside(move || open_file(&directory, &wanted));
        let Some(file) = opened.await?? else {
            return Ok(None);
        };
        let reader = self.io.open(file).await?;
        Ok(Some(OpenLog {
            reader,
            name,
            offset,
        }))
    }
}

/// A file of a stream; `None` where since it was listed it was rotated away, or the task put
/// something else in its place. Blocks.
fn open_file(directory: &OwnedFd, name: &str) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    Ok(file.metadata()?.is_file().then_some(file))
}

/// The newest files of a stream, oldest first. A link or a directory that the task left under such
/// a name is no log: the others are read. Blocks.
fn list(directory: &OwnedFd, prefix: &str, files_max: usize) -> Result<Vec<LogFile>, Errno> {
    let mut numbers = Vec::new();
    for entry in Dir::read_from(directory)?.take(ENTRIES_MAX) {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        numbers.extend(name.strip_prefix(prefix).and_then(number_of));
    }
    numbers.sort_unstable();
    let mut files = VecDeque::new();
    for number in numbers.into_iter().rev() {
        if files.len() >= files_max {
            break;
        }
        let name = format!("{prefix}{number}");
        let stat = match rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno),
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            files.push_front(LogFile { number, size });
        }
    }
    Ok(files.into())
}

/// Whether a file is missing among those that follow each other, or between `after` and them.
fn has_gap(files: &[LogFile], after: Option<u64>) -> bool {
    let later = files.iter().map(|file| file.number);
    let later = later.filter(|number| after.is_none_or(|after| *number > after));
    let numbers: Vec<u64> = after.into_iter().chain(later).collect();
    numbers.windows(2).any(|pair| pair[1] - pair[0] > 1)
}

/// The number at the end of a file's name, as pump writes it.
fn number_of(digits: &str) -> Option<u64> {
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// The file and the place in it where a request begins; `None` while there is no file. An offset
/// beyond the other end stops there.
fn start(files: &[LogFile], origin: v1::Origin, offset: i64) -> Option<(u64, u64)> {
    let sizes = files.iter().map(|file| file.size);
    // Sparse files of a task's own may claim any size.
    let total = sizes.fold(0, u64::saturating_add);
    let distance = offset.unsigned_abs();
    let mut left = match origin {
        v1::Origin::Start => distance.min(total),
        v1::Origin::End => total.saturating_sub(distance),
    };
    for file in files {
        if left < file.size {
            return Some((file.number, left));
        }
        left -= file.size;
    }
    files.last().map(|file| (file.number, file.size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_io::Engine;

    fn files(sizes: &[u64]) -> Vec<LogFile> {
        (3..)
            .zip(sizes)
            .map(|(number, size)| LogFile {
                number,
                size: *size,
            })
            .collect()
    }

    #[test]
    fn a_file_that_a_listing_missed_is_noticed() {
        let numbered = |numbers: &[u64]| -> Vec<LogFile> {
            let file = |number: &u64| LogFile {
                number: *number,
                size: 1,
            };
            numbers.iter().map(file).collect()
        };
        for (numbers, after, gap) in [
            (&[][..], None, false),
            (&[][..], Some(3), false),
            (&[3, 4, 5], None, false),
            (&[3, 5], None, true),
            (&[1, 3, 4], Some(3), false),
            (&[3, 5], Some(3), true),
            (&[5, 6], Some(3), true),
            (&[1, 3], Some(3), false),
        ] {
            assert_eq!(
                has_gap(&numbered(numbers), after),
                gap,
                "{numbers:?} {after:?}"
            );
        }
    }

    #[test]
    fn a_request_begins_where_its_offset_falls_over_all_files() {
        let files = files(&[10, 0, 5]);
        for (origin, offset, expected) in [
            (v1::Origin::Start, 0, (3, 0)),
            (v1::Origin::Start, 9, (3, 9)),
            (v1::Origin::Start, 10, (5, 0)),
            (v1::Origin::Start, 99, (5, 5)),
            (v1::Origin::End, 0, (5, 5)),
            (v1::Origin::End, 5, (5, 0)),
            (v1::Origin::End, 6, (3, 9)),
            (v1::Origin::End, 99, (3, 0)),
        ] {
            assert_eq!(
                start(&files, origin, offset),
                Some(expected),
                "{origin:?} {offset}"
            );
        }
        assert_eq!(start(&[], v1::Origin::Start, 0), None);
    }

    #[test]
    fn files_of_other_streams_and_tasks_and_what_is_no_file_are_not_listed() {
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "a.stdout.10",
            "a.stdout.9",
            "a.stderr.0",
            "b.stdout.0",
            "a.stdout.x",
            "a.stdout.+8",
            "a.stdout.08",
        ] {
            std::fs::write(directory.path().join(name), "xy").unwrap();
        }
        let of_the_task = |name: &str| directory.path().join(name);
        std::os::unix::fs::symlink("/etc/passwd", of_the_task("a.stdout.11")).unwrap();
        std::fs::create_dir(of_the_task("a.stdout.12")).unwrap();
        let opened: OwnedFd = File::open(directory.path()).unwrap().into();
        let listed = list(&opened, "a.stdout.", 10).unwrap();
        let numbers: Vec<u64> = listed.iter().map(|file| file.number).collect();
        assert_eq!(numbers, [9, 10]);
        assert_eq!(listed[0].size, 2);
        let newest = list(&opened, "a.stdout.", 1).unwrap();
        assert_eq!(newest[0].number, 10);
        assert_eq!(newest.len(), 1);
        // Put there after they were listed.
        for name in ["a.stdout.11", "a.stdout.12"] {
            assert!(open_file(&opened, name).unwrap().is_none(), "{name}");
        }
    }

    fn source(directory: &std::path::Path, engine: Engine) -> Option<LogSource> {
        match FileIo::start_with(engine) {
            Ok(io) => Some(LogSource {
                directory: Arc::new(File::open(directory).unwrap().into()),
                prefix: "t.stdout.".to_owned(),
                files_max: 1000,
                io,
            }),
            Err(error) => {
                eprintln!("skipped: {engine:?}: {error}");
                None
            }
        }
    }

    async fn rest(cursor: &mut LogCursor) -> String {
        let mut all = Vec::new();
        while let Step::Chunk { bytes, .. } = cursor.next().await.unwrap() {
            all.extend(bytes);
        }
        String::from_utf8(all).unwrap()
    }

    #[tokio::test]
    async fn files_of_a_task_s_own_making_cost_one_listing() {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut source) = source(directory.path(), Engine::Plain) else {
            return;
        };
        source.files_max = 10;
        for number in 0..3000 {
            std::fs::write(directory.path().join(format!("t.stdout.{number}")), "").unwrap();
        }
        std::fs::write(directory.path().join("t.stdout.3000"), "the end").unwrap();
        let found = LogCursor::find(source, v1::Origin::Start, 0).await;
        let mut cursor = found.unwrap().unwrap();
        assert_eq!(cursor.number, 3000, "the others are empty");
        cursor.number = 0;
        cursor.open = None;
        cursor.later = (2991..=3000).collect();
        assert_eq!(rest(&mut cursor).await, "the end");
        assert_eq!(cursor.number, 3000);
        assert_eq!(cursor.listings, 2, "once to begin, once to end");
    }

    async fn reads_over_rotation(engine: Engine) {
        let directory = tempfile::tempdir().unwrap();
        let path = |number: u64| directory.path().join(format!("t.stdout.{number}"));
        let Some(source) = source(directory.path(), engine) else {
            return;
        };
        let Err(source) = LogCursor::find(source, v1::Origin::Start, 0).await.unwrap() else {
            panic!("a stream without files");
        };
        std::fs::write(path(0), "zero,").unwrap();
        std::fs::write(path(1), "one,").unwrap();
        let mut cursor = LogCursor::find(source, v1::Origin::Start, 2)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(rest(&mut cursor).await, "ro,one,");
        let append = |number: u64, text: &str| {
            use std::io::Write;
            let mut options = File::options();
            let mut file = options
                .append(true)
                .create(true)
                .open(path(number))
                .unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        append(1, "more,");
        append(2, "two,");
        std::fs::remove_file(path(0)).unwrap();
        // The open file goes too: what was in it is still read.
        std::fs::remove_file(path(1)).unwrap();
        assert_eq!(rest(&mut cursor).await, "more,two,");
        // Rotated away unseen: that part is lost, the rest is not.
        append(3, "three,");
        std::fs::remove_file(path(3)).unwrap();
        append(4, "four");
        assert_eq!(rest(&mut cursor).await, "four");
        assert_eq!(cursor.next().await.unwrap(), Step::AtEnd);
    }

    /// What a follower gets, which waits only for what the kernel tells.
    async fn followed(
        mut cursor: LogCursor,
        mut watched: crate::file_watch::Watched,
        bytes_max: usize,
    ) -> (Vec<u8>, usize) {
        let (mut all, mut truncated) = (Vec::new(), 0);
        while all.len() < bytes_max {
            watched.mark();
            match cursor.next().await.unwrap() {
                Step::Chunk { bytes, .. } => all.extend(bytes),
                Step::Truncated { .. } => truncated += 1,
                Step::AtEnd => {
                    let waited = std::time::Duration::from_secs(20);
                    let woken = tokio::time::timeout(waited, watched.changed()).await;
                    assert!(
                        woken.is_ok(),
                        "slept over a write after {} bytes",
                        all.len()
                    );
                }
            }
        }
        (all, truncated)
    }

    /// Pieces of odd lengths, as a seed says.
    fn pieces(seed: u64) -> Vec<Vec<u8>> {
        let mut state = seed | 1;
        (0..400_u64)
            .map(|number| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(number);
                let length = usize::try_from(state >> 33).unwrap() % 3000 + 1;
                format!("{number}:")
                    .into_bytes()
                    .into_iter()
                    .cycle()
                    .take(length)
                    .collect()
            })
            .collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_follower_gets_every_byte_once_while_files_rotate() {
        use std::io::Write;
        for seed in [1, 77, 4096] {
            let directory = tempfile::tempdir().unwrap();
            let Some(source) = source(directory.path(), Engine::Plain) else {
                return;
            };
            let files = crate::file_watch::FileWatch::start().unwrap();
            let watched = files.watch(&source.directory).unwrap();
            std::fs::write(directory.path().join("t.stdout.0"), "").unwrap();
            let cursor = LogCursor::find(source, v1::Origin::Start, 0)
                .await
                .unwrap()
                .unwrap();
            let pieces = pieces(seed);
            let expected = pieces.concat();
            let base = directory.path().to_owned();
            let writer = std::thread::spawn(move || {
                let (mut number, mut size) = (0, 0);
                let open = |number: u64| {
                    let path = base.join(format!("t.stdout.{number}"));
                    File::options()
                        .append(true)
                        .create(true)
                        .open(path)
                        .unwrap()
                };
                let mut file = open(0);
                for (offset, piece) in pieces.iter().enumerate() {
                    file.write_all(piece).unwrap();
                    size += piece.len();
                    if size > 10_000 {
                        number += 1;
                        size = 0;
                        file = open(number);
                    }
                    if offset % 7 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let (all, truncated) = followed(cursor, watched, expected.len()).await;
            writer.join().unwrap();
            assert!(all == expected, "seed {seed}: {} bytes", all.len());
            assert_eq!(truncated, 0);
        }
    }

    #[tokio::test]
    async fn a_file_that_is_emptied_is_read_from_its_start_again() {
        let directory = tempfile::tempdir().unwrap();
        let Some(source) = source(directory.path(), Engine::Plain) else {
            return;
        };
        let path = directory.path().join("t.stdout.0");
        std::fs::write(&path, "a long line before").unwrap();
        let mut cursor = LogCursor::find(source, v1::Origin::Start, 0)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(rest(&mut cursor).await, "a long line before");
        std::fs::write(&path, "short").unwrap();
        let step = cursor.next().await.unwrap();
        assert_eq!(
            step,
            Step::Truncated {
                file: "t.stdout.0".to_owned()
            }
        );
        assert_eq!(rest(&mut cursor).await, "short");
        assert_eq!(cursor.next().await.unwrap(), Step::AtEnd);
    }

    #[tokio::test]
    async fn output_is_whole_over_rotation_with_the_ring() {
        reads_over_rotation(Engine::Ring).await;
    }

    #[tokio::test]
    async fn output_is_whole_over_rotation_with_plain_reads() {
        reads_over_rotation(Engine::Plain).await;
    }
}
