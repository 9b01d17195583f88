//! Bytes that nobody can change any more: sealed memory files. A plan on its way to keeper, and
//! keeper's state on its way to the next keeper, could otherwise be others after they were checked.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Why a descriptor is not what was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemfdError {
    #[error("no memory file")]
    Foreign(#[source] Errno),
    #[error("the memory file is not sealed")]
    Unsealed,
    #[error("{bytes} bytes, at most {bytes_max} are allowed")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("the memory file cannot be read")]
    Read(#[source] Errno),
}

pub(crate) fn seal(name: &str, bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let memfd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = rustix::io::write(&memfd, rest)?;
        rest = &rest[count..];
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&memfd, seals)?;
    Ok(memfd)
}

/// The whole content, wherever the descriptor's position is.
pub(crate) fn read_sealed(memfd: BorrowedFd<'_>, bytes_max: usize) -> Result<Vec<u8>, MemfdError> {
    let seals = fcntl_get_seals(memfd).map_err(MemfdError::Foreign)?;
    if !seals.contains(SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW) {
        return Err(MemfdError::Unsealed);
    }
    let size = fstat(memfd).map_err(MemfdError::Read)?.st_size;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > bytes_max {
        return Err(MemfdError::TooLarge {
            bytes: size,
            bytes_max,
        });
    }
    let mut bytes = vec![0; size];
    let mut length = 0;
    while length < size {
        match rustix::io::pread(memfd, &mut bytes[length..], length as u64) {
            Ok(0) => return Err(MemfdError::Read(Errno::IO)),
            Ok(count) => length += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(MemfdError::Read(errno)),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_was_sealed_is_read_and_cannot_be_changed() {
        let memfd = seal("test", b"state").unwrap();
        assert_eq!(read_sealed(memfd.as_fd(), 5).unwrap(), b"state");
        assert_eq!(rustix::io::pwrite(&memfd, b"x", 0), Err(Errno::PERM));
        let error = read_sealed(memfd.as_fd(), 4).unwrap_err();
        assert!(matches!(error, MemfdError::TooLarge { bytes: 5, .. }));
    }

    #[test]
    fn what_could_still_change_is_refused() {
        let memfd = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        let error = read_sealed(memfd.as_fd(), 5).unwrap_err();
        assert!(matches!(error, MemfdError::Unsealed));
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = read_sealed(file.as_fd(), 5).unwrap_err();
        assert!(matches!(error, MemfdError::Foreign(_)));
    }
}
