//! A listening socket in a task's secrets directory, made and given away by descriptors alone: the
//! task may put anything beneath the path of a directory that is its own.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use noded_core::env::layout::API_SOCKET;
use noded_keeper::client::bound_file;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connects that wait in the kernel's queue.
const BACKLOG: i32 = 128;

/// Why a task has no socket.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {API_SOCKET} in the task's secrets directory")]
pub(crate) struct SocketError {
    operation: &'static str,
    #[source]
    source: Errno,
}

/// The file of a socket that listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SocketFile {
    device: u64,
    inode: u64,
    uid: u32,
}

impl SocketFile {
    /// The user that the directory is of, and so the task's.
    pub(super) fn uid(self) -> u32 {
        self.uid
    }

    /// Whether it is still in its directory, of the same user.
    pub(super) fn is_in(self, secrets: impl AsFd) -> bool {
        let uid = fs::fstat(&secrets).map(|directory| directory.st_uid);
        let found = fs::statat(&secrets, API_SOCKET, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|it| (it.st_dev, it.st_ino) == (self.device, self.inode))
            && uid == Ok(self.uid)
    }
}

fn failed(operation: &'static str) -> impl FnOnce(Errno) -> SocketError {
    move |source| SocketError { operation, source }
}

/// Binds and listens. Only the directory's user can enter it, so the mode is that user's: 0600, and
/// 0666 where it is root, which may become another one.
///
/// # Errors
/// Where the kernel refuses.
pub(super) fn bind(secrets: &OwnedFd) -> Result<(UnixListener, SocketFile), SocketError> {
    let directory = fs::fstat(secrets).map_err(failed("examining the directory of"))?;
    match fs::unlinkat(secrets, API_SOCKET, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed("removing the file in the place of")(errno)),
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(failed("making"))?;
    // Before it has a name: nobody else connects before the file is given away.
    fs::fchmod(&socket, Mode::from_raw_mode(0o600)).map_err(failed("setting the mode of"))?;
    let path = PathBuf::from(format!(
        "/proc/self/fd/{}/{API_SOCKET}",
        secrets.as_raw_fd()
    ));
    let address = SocketAddrUnix::new(&path).map_err(failed("naming"))?;
    net::bind(&socket, &address).map_err(failed("binding"))?;
    let file = give_away(secrets, directory.st_uid, directory.st_gid)?;
    net::listen(&socket, BACKLOG).map_err(failed("listening on"))?;
    Ok((socket.into(), file))
}

/// A socket that an earlier noded bound here and keeper held, if it is the one that the directory's
/// file leads to: it listens, and the file is of the directory's user.
pub(super) fn adopt(secrets: &OwnedFd, socket: OwnedFd) -> Option<(UnixListener, SocketFile)> {
    let file = bound_file(&socket).and_then(fs::fstat).ok()?;
    let file = SocketFile {
        device: file.st_dev,
        inode: file.st_ino,
        uid: file.st_uid,
    };
    if !file.is_in(secrets) {
        return None;
    }
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true).ok()?;
    Some((listener, file))
}

fn give_away(secrets: &OwnedFd, uid: u32, gid: u32) -> Result<SocketFile, SocketError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::openat(secrets, API_SOCKET, flags, Mode::empty()).map_err(failed("opening"))?;
    let found = fs::fstat(&file).map_err(failed("examining"))?;
    // Another file in its place was put there by the task.
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    if !is_socket || found.st_nlink != 1 {
        return Err(failed("finding")(Errno::EXIST));
    }
    let mode = if uid == 0 { 0o666 } else { 0o600 };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::chmod(path, Mode::from_raw_mode(mode)).map_err(failed("setting the mode of"))?;
    let owner = rustix::process::Uid::from_raw(uid);
    let group = rustix::process::Gid::from_raw(gid);
    fs::chownat(&file, "", Some(owner), Some(group), AtFlags::EMPTY_PATH)
        .map_err(failed("giving away"))?;
    Ok(SocketFile {
        device: found.st_dev,
        inode: found.st_ino,
        uid,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn directory() -> (tempfile::TempDir, OwnedFd) {
        let directory = tempfile::tempdir().expect("a directory");
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = fs::open(directory.path(), flags, Mode::empty()).expect("opens");
        (directory, opened)
    }

    #[test]
    fn socket_has_its_directorys_user_and_is_bound_anew_when_gone() {
        let (directory, opened) = directory();
        let path = directory.path().join(API_SOCKET);
        let (_listener, file) = bind(&opened).expect("binds");
        let found = path.metadata().expect("is there");
        let own = directory.path().metadata().expect("is there");
        assert_eq!((found.uid(), found.gid()), (own.uid(), own.gid()));
        let mode = if own.uid() == 0 { 0o666 } else { 0o600 };
        assert_eq!(found.permissions().mode() & 0o7777, mode);
        assert!(file.is_in(&opened));
        std::fs::remove_file(&path).expect("is removed");
        assert!(!file.is_in(&opened));
        let (listener, file) = bind(&opened).expect("binds");
        assert!(file.is_in(&opened));
        let _client = UnixStream::connect(&path).expect("connects");
        listener.accept().expect("is accepted");
    }

    #[test]
    fn held_socket_is_adopted_only_where_its_own_file_still_is() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root, for CAP_NET_ADMIN");
            return;
        }
        let (directory, opened) = directory();
        let path = directory.path().join(API_SOCKET);
        let copy = |listener: &UnixListener| OwnedFd::from(listener.try_clone().expect("a copy"));
        let (listener, file) = bind(&opened).expect("binds");
        let _waiting = UnixStream::connect(&path).expect("connects");
        let (adopted, of_adopted) = adopt(&opened, copy(&listener)).expect("is adopted");
        assert_eq!(of_adopted, file);
        adopted.accept().expect("the connection that waited");
        let (near, _far) = UnixStream::pair().expect("a pair");
        let null = std::fs::File::open("/dev/null").expect("opens");
        for other in [near.into(), null.into()] {
            assert!(adopt(&opened, other).is_none(), "it does not listen");
        }
        let (_other_directory, other) = self::directory();
        assert!(adopt(&other, copy(&listener)).is_none(), "no file there");
        let (_own, _) = bind(&other).expect("binds");
        assert!(adopt(&other, copy(&listener)).is_none(), "another's file");
        std::os::unix::fs::lchown(&path, Some(4711), None).expect("is given away");
        assert!(adopt(&opened, copy(&listener)).is_none(), "another user's");
        std::fs::remove_file(&path).expect("is removed");
        assert!(adopt(&opened, copy(&listener)).is_none(), "without a file");
    }

    #[test]
    fn links_and_files_in_the_place_of_a_socket_are_replaced_and_not_followed() {
        let (directory, opened) = directory();
        let path = directory.path().join(API_SOCKET);
        let other = directory.path().join("other");
        std::fs::write(&other, "mine").expect("is written");
        std::os::unix::fs::symlink(&other, &path).expect("is linked");
        bind(&opened).expect("binds");
        assert_eq!(std::fs::read(&other).expect("is read"), b"mine");
        std::fs::remove_file(&path).expect("is removed");
        std::fs::create_dir(&path).expect("is made");
        bind(&opened).expect_err("a directory in its place");
    }
}
