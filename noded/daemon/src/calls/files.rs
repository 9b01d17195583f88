//! Files of an allocation: list, stat, read. Everything is resolved beneath the allocation's
//! directory; secrets are not shown to anyone.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};
use std::sync::Arc;

use protocol_model::{AllocId, FileInfo, UnixNanos};
use protocol_wire::v1;
use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::follow::{Pace, Position};
use super::{CallEnd, CallFailed, CallServer, Replies};
use crate::alloc_dir::{AllocDirError, STAGING};
use crate::executor::Executor;
use crate::file_io::FileState;
use crate::input::AllocView;

/// Directories beyond this are cut: an answer is one message.
const ENTRIES_MAX: usize = 10_000;
/// What of a file is looked at to tell what it is.
const SNIFF_BYTES: usize = 512;
/// Directories of a task that only the task and noded may look into.
const DENIED: [&str; 2] = ["secrets", "private"];

impl CallServer {
    pub(super) async fn fs_list(
        &self,
        view: &AllocView,
        request: &v1::FsListRequest,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let (alloc, path) = (view.spec.id(), request.path.clone());
        let entries = self.look(move |node| {
            let directory = open(node, alloc, &path)?;
            if !directory.metadata().is_ok_and(|metadata| metadata.is_dir()) {
                return Err(CallFailed::bad("not a directory").into());
            }
            list(&directory).map_err(|error| CallFailed::internal(&error).into())
        });
        replies.json(&entries.await?).await
    }

    pub(super) async fn fs_stat(
        &self,
        view: &AllocView,
        request: &v1::FsStatRequest,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let (alloc, path) = (view.spec.id(), request.path.clone());
        let info = self.look(move |node| {
            let file = open(node, alloc, &path)?;
            let name = Path::new(&path).file_name().map_or_else(
                || "/".to_owned(),
                |name| name.to_string_lossy().into_owned(),
            );
            describe(&file, name, Sniff::Yes).map_err(|error| CallFailed::internal(&error).into())
        });
        replies.json(&info.await?).await
    }

    pub(super) async fn fs_read(
        &self,
        view: &AllocView,
        request: &v1::FsReadRequest,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let (alloc, path) = (view.spec.id(), request.path.clone());
        let opened = self.look(move |node| {
            let file = open(node, alloc, &path).map_err(unreadable)?;
            let metadata = file.metadata().map_err(|e| CallFailed::internal(&e))?;
            if !metadata.is_file() {
                return Err(CallFailed::bad("not a regular file").into());
            }
            Ok((file, metadata.len()))
        });
        let (file, size) = opened.await?;
        let distance = request.offset.unsigned_abs();
        let offset = match request.origin() {
            v1::Origin::Start => distance,
            v1::Origin::End => size.saturating_sub(distance),
        };
        let mut pace = Pace::new();
        if request.follow {
            pace.watch(self.files.as_ref(), &file);
        }
        let reader = self
            .io
            .open(file)
            .await
            .map_err(|e| CallFailed::internal(&e))?;
        let mut position = Position {
            reader,
            name: request.path.clone(),
            offset,
        };
        let mut left = match u64::try_from(request.limit) {
            Ok(limit) if limit > 0 => limit,
            _ => u64::MAX,
        };
        loop {
            pace.mark();
            let sent = position.send_rest(left, replies).await?;
            left = if left == u64::MAX { left } else { left - sent };
            if !request.follow || left == 0 {
                return Ok(());
            }
            let looked = position.reader.state().await;
            let FileState { size, links } = looked.map_err(|e| CallFailed::internal(&e))?;
            if size < position.offset {
                position.offset = 0;
                position.send_event("file truncated", replies).await?;
            } else if links == 0 && size == position.offset {
                return position.send_event("file deleted", replies).await;
            }
            pace.wait(replies).await?;
        }
    }

    /// Looks at files beside the loop, whose heartbeats must not wait for a disk.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        at: impl FnOnce(&Executor) -> Result<T, CallEnd> + Send + 'static,
    ) -> Result<T, CallEnd> {
        let node = Arc::clone(&self.executor);
        let looked = self.io.beside(move || at(&node)).await;
        looked.map_err(|error| CallFailed::new(503, error.to_string()))?
    }
}

/// Opens a file of an allocation that may be shown. Blocks.
fn open(node: &Executor, alloc: AllocId, path: &str) -> Result<File, CallEnd> {
    let refused = || CallFailed::new(403, format!("{path:?} is not shown"));
    if is_denied(Path::new(path)) {
        return Err(refused().into());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = node
        .allocs
        .open_beneath(alloc, Path::new(path), flags)
        .map_err(|error| match &error {
            AllocDirError::Escapes { .. } => {
                CallFailed::bad(format!("path {path:?} escapes the allocation's directory"))
            }
            AllocDirError::Operation {
                source: Errno::NOENT | Errno::NOTDIR,
                ..
            } => CallFailed::not_found(format!("no file {path:?}")),
            AllocDirError::Operation {
                source: errno @ (Errno::INVAL | Errno::NAMETOOLONG | Errno::NXIO | Errno::NODEV),
                ..
            } => CallFailed::bad(format!("path {path:?} cannot be opened: {errno}")),
            _ => CallFailed::internal(&error),
        })?;
    // A link may lead from one directory of the allocation to another.
    let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .map_err(|error| CallFailed::internal(&error))?;
    match real.strip_prefix(node.allocs.path_of(alloc)) {
        Ok(below) if !is_denied(below) => Ok(File::from(file)),
        Ok(_) | Err(_) => Err(refused().into()),
    }
}

/// The refusal to read a file that is not there. Nomad answers 400 where content is asked for.
fn unreadable(end: CallEnd) -> CallEnd {
    match end {
        CallEnd::Failed(CallFailed {
            status: 404,
            message,
        }) => CallFailed::bad(message).into(),
        other => other,
    }
}

/// Whether a path below an allocation's directory is a task's secret one, or where artifacts lie
/// while they are fetched, keys among them.
fn is_denied(path: &Path) -> bool {
    let mut parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::RootDir | Component::CurDir | Component::Prefix(_) | Component::ParentDir => {
            None
        }
    });
    let (task, name) = (parts.next(), parts.next());
    task.is_some_and(|task| task == STAGING)
        || name.is_some_and(|name| DENIED.iter().any(|denied| name == *denied))
}

fn list(directory: &File) -> Result<Vec<FileInfo>, std::io::Error> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." || name == STAGING {
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH;
        let opened: Result<OwnedFd, Errno> =
            rustix::fs::openat2(directory, entry.file_name(), flags, Mode::empty(), resolve);
        match opened {
            Ok(file) => entries.push(describe(&File::from(file), name, Sniff::No)?),
            // Removed since it was listed.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        if entries.len() >= ENTRIES_MAX {
            break;
        }
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Whether the content is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sniff {
    Yes,
    No,
}

fn describe(file: &File, name: String, sniff: Sniff) -> Result<FileInfo, std::io::Error> {
    use std::os::unix::fs::FileExt;
    let metadata = file.metadata()?;
    let content_type = if sniff == Sniff::Yes && metadata.is_file() {
        let mut bytes = [0; SNIFF_BYTES];
        let count = file.read_at(&mut bytes, 0)?;
        content_type(&bytes[..count]).to_owned()
    } else {
        String::new()
    };
    let modified = metadata
        .mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(metadata.mtime_nsec());
    Ok(FileInfo {
        name,
        is_dir: metadata.is_dir(),
        size: metadata.len(),
        file_mode: file_mode(metadata.mode()),
        mod_time: Some(UnixNanos(modified)),
        content_type,
    })
}

fn content_type(bytes: &[u8]) -> &'static str {
    let text = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        // A letter cut off at the end of what was read.
        Err(error) => error.error_len().is_none(),
    };
    let binary = |byte: &u8| *byte < 0x20 && !b"\t\n\r\x0c\x1b".contains(byte);
    if text && !bytes.iter().any(binary) {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    }
}

/// Mode bits as Go's `os.FileMode` prints them, which is what clients read.
fn file_mode(mode: u32) -> String {
    let kind = match mode & 0o170_000 {
        0o040_000 => "d",
        0o120_000 => "L",
        0o060_000 => "D",
        0o020_000 => "Dc",
        0o010_000 => "p",
        0o140_000 => "S",
        _ => "",
    };
    let mut text = kind.to_owned();
    for (bit, letter) in [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')] {
        if mode & bit != 0 {
            text.push(letter);
        }
    }
    if text.is_empty() {
        text.push('-');
    }
    for (offset, letter) in "rwxrwxrwx".chars().enumerate() {
        let set = mode & (0o400 >> offset) != 0;
        text.push(if set { letter } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_denied_wherever_they_are_spelled() {
        for path in [
            "web/secrets",
            "/web/secrets/token",
            "web/./private/x",
            "//web//secrets",
            ".staging/web.1.0/ssh-key",
        ] {
            assert!(is_denied(Path::new(path)), "{path}");
        }
        for path in ["/", "web", "web/local/secrets", "alloc/data"] {
            assert!(!is_denied(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn modes_are_printed_as_clients_read_them() {
        for (mode, expected) in [
            (0o100_644, "-rw-r--r--"),
            (0o040_755, "drwxr-xr-x"),
            (0o041_777, "dtrwxrwxrwx"),
            (0o120_777, "Lrwxrwxrwx"),
            (0o104_755, "urwxr-xr-x"),
        ] {
            assert_eq!(file_mode(mode), expected);
        }
    }

    #[test]
    fn content_is_text_or_not() {
        assert!(content_type(b"hello\n").starts_with("text/plain"));
        assert!(content_type("ü".repeat(300).as_bytes().get(..511).unwrap()).starts_with("text"));
        assert_eq!(content_type(&[0, 1, 2]), "application/octet-stream");
    }
}
