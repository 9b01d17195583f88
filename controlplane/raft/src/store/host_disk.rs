//! The files of this host, and threads for what waits for them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::future::ready;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::executor::block_on;
use futures::future::BoxFuture;
use protocol_transport::files::make_private_directory;
use protocol_transport::take_short_turns;

use super::disk::{Disk, DiskFile, Lock, Opening};

/// See the top of this file.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostDisk;

impl Disk for HostDisk {
    fn make_private(&self, directory: &Path) -> io::Result<()> {
        make_private_directory(directory)?;
        let mode = fs::metadata(directory)?.permissions().mode();
        if mode & 0o077 == 0 {
            return Ok(());
        }
        // The log holds jobs with their secrets.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let file = private(OpenOptions::new().write(true).create(true)).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(Locked { _file: file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(directory)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn open(&self, path: &Path, opening: Opening) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(opening != Opening::Reading);
        match opening {
            Opening::Reading | Opening::Existing => &mut options,
            Opening::Emptied => options.create(true).truncate(true),
            Opening::New => options.create_new(true),
        };
        Ok(Arc::new(private(&mut options).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn run_writer(&self, name: &'static str, writer: BoxFuture<'static, ()>) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let run = || {
            // An entry waits for it, while snapshots are written aside.
            take_short_turns();
            block_on(writer);
        };
        thread.spawn(run).map(drop)
    }

    fn run_beside(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(work).map(drop)
    }
}

/// How a file is made that only its owner may read, whatever the umask.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// The kernel lets go of it when the process ends, however it ends (flock(2)).
#[derive(Debug)]
struct Locked {
    _file: File,
}

impl Lock for Locked {}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(self, buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn append<'a>(&'a self, bytes: &'a [u8], offset: u64) -> BoxFuture<'a, io::Result<()>> {
        // The bytes are there already, as zeros: no metadata changes.
        let written = self
            .write_all_at(bytes, offset)
            .and_then(|()| self.sync_data());
        Box::pin(ready(written))
    }
}
