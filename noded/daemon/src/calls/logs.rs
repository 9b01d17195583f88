//! A task's output, over its rotated files `<task>.<stdout|stderr>.<number>`: one stream of bytes
//! that may lose files at its beginning while it is read, and grow at its end.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use noded_keeper::io::{OutputStream, streams_are_gone};
use protocol_model::AllocId;
use protocol_wire::v1;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::follow::{Pace, Position};
use super::{CallEnd, CallFailed, CallServer, Replies};
use crate::executor::Executor;
use crate::input::{AllocView, Liveness};

/// A log directory holds two streams of some tasks, `max_files` each.
const ENTRIES_MAX: usize = 100_000;

/// One file of a stream, as it was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LogFile {
    number: u64,
    name: String,
    size: u64,
}

impl CallServer {
    pub(super) async fn logs(
        &self,
        view: &AllocView,
        request: &v1::LogsRequest,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let alloc = view.spec.id();
        let task = &request.task;
        if view.spec.task(task).is_none() {
            let problem = format!("unknown task name {task:?}");
            return Err(CallFailed::not_found(problem).into());
        }
        let stream = if request.stderr {
            OutputStream::Stderr
        } else {
            OutputStream::Stdout
        };
        let prefix = format!("{task}.{}.", stream.as_str());
        let mut pace = Pace::new();
        let (mut number, offset) = loop {
            let files = self.list(alloc, &prefix)?;
            if let Some(start) = start(&files, request.origin(), request.offset) {
                break start;
            }
            if !request.follow || self.is_over(alloc, task).await? {
                return Ok(());
            }
            pace.wait(replies).await?;
        };
        let mut position = self.open_log(alloc, &prefix, number, offset).await?;
        loop {
            // Asked before the read: what is written until then is in the file.
            let over = request.follow && self.is_over(alloc, task).await?;
            let newer = self.list(alloc, &prefix)?;
            if let Some(current) = &mut position
                && current.send_rest(u64::MAX, replies).await? > 0
            {
                pace.told();
                continue;
            }
            // Nothing is ever added to a file once a later one exists.
            match newer.iter().find(|file| file.number > number) {
                Some(next) => {
                    number = next.number;
                    position = self.open_log(alloc, &prefix, number, 0).await?;
                }
                None if !request.follow || over => return Ok(()),
                None => pace.wait(replies).await?,
            }
        }
    }

    /// Whether nothing will be written to the task's output any more, and all of it is in the files.
    async fn is_over(&self, alloc: AllocId, task: &str) -> Result<bool, CallEnd> {
        let view = match self.view(alloc).await {
            Ok(view) => view,
            // Destroyed meanwhile.
            Err(CallEnd::Failed(failed)) if failed.status == 404 => return Ok(true),
            Err(end) => return Err(end),
        };
        let alive = view
            .runs
            .iter()
            .any(|(run, liveness)| run.task == task && *liveness == Liveness::Alive);
        if alive || !view.over {
            return Ok(false);
        }
        let Some(owner) = Executor::log_owner(alloc, task) else {
            return Ok(true);
        };
        Ok(streams_are_gone(&self.executor.paths, &owner).unwrap_or(true))
    }

    fn log_directory(&self, alloc: AllocId) -> Result<Option<OwnedFd>, CallEnd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let path = Path::new("alloc/logs");
        match self.executor.allocs.open_beneath(alloc, path, flags) {
            Ok(directory) => Ok(Some(directory)),
            Err(crate::alloc_dir::AllocDirError::Operation {
                source: Errno::NOENT,
                ..
            }) => Ok(None),
            Err(error) => Err(CallFailed::internal(&error).into()),
        }
    }

    fn list(&self, alloc: AllocId, prefix: &str) -> Result<Vec<LogFile>, CallEnd> {
        match self.log_directory(alloc)? {
            None => Ok(Vec::new()),
            Some(directory) => {
                list(&directory, prefix).map_err(|error| CallFailed::internal(&error).into())
            }
        }
    }

    async fn open_log(
        &self,
        alloc: AllocId,
        prefix: &str,
        number: u64,
        offset: u64,
    ) -> Result<Option<Position>, CallEnd> {
        let Some(directory) = self.log_directory(alloc)? else {
            return Ok(None);
        };
        let name = format!("{prefix}{number}");
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&directory, &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            // Rotated away since it was listed.
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(CallFailed::internal(&error).into()),
        };
        let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        if !regular {
            let problem = format!("{name} is not a regular file");
            return Err(CallFailed::new(500, problem).into());
        }
        let reader = self
            .io
            .open(file)
            .await
            .map_err(|error| CallFailed::internal(&error))?;
        Ok(Some(Position {
            reader,
            name,
            offset,
        }))
    }
}

/// The files of a stream, oldest first.
fn list(directory: &OwnedFd, prefix: &str) -> Result<Vec<LogFile>, Errno> {
    let mut files = Vec::new();
    for entry in Dir::read_from(directory)?.take(ENTRIES_MAX) {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        let Some(number) = name.strip_prefix(prefix).and_then(|rest| rest.parse().ok()) else {
            continue;
        };
        let stat = match rustix::fs::statat(directory, &*name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno),
        };
        files.push(LogFile {
            number,
            name: name.into_owned(),
            size: u64::try_from(stat.st_size).unwrap_or(0),
        });
    }
    files.sort_by_key(|file| file.number);
    Ok(files)
}

/// The file and the place in it where a request begins; `None` while there is no file. An offset
/// beyond the other end stops there.
fn start(files: &[LogFile], origin: v1::Origin, offset: i64) -> Option<(u64, u64)> {
    let total: u64 = files.iter().map(|file| file.size).sum();
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

    fn files(sizes: &[u64]) -> Vec<LogFile> {
        (3..)
            .zip(sizes)
            .map(|(number, size)| LogFile {
                number,
                name: format!("t.stdout.{number}"),
                size: *size,
            })
            .collect()
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
    fn files_of_other_streams_and_tasks_are_not_listed() {
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "a.stdout.10",
            "a.stdout.9",
            "a.stderr.0",
            "b.stdout.0",
            "a.stdout.x",
        ] {
            std::fs::write(directory.path().join(name), "xy").unwrap();
        }
        let opened: OwnedFd = File::open(directory.path()).unwrap().into();
        let listed = list(&opened, "a.stdout.").unwrap();
        let numbers: Vec<u64> = listed.iter().map(|file| file.number).collect();
        assert_eq!(numbers, [9, 10]);
        assert_eq!(listed[0].size, 2);
    }
}
