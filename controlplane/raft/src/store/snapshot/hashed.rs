//! Checksums on the way.

use std::io::{self, Read, Write};

/// Counts and checksums what passes through.
pub(super) struct Hashed<T> {
    pub(super) inner: T,
    pub(super) crc: crc32fast::Hasher,
    pub(super) bytes: u64,
}

impl<T> Hashed<T> {
    pub(super) fn new(inner: T) -> Self {
        Self {
            inner,
            crc: crc32fast::Hasher::new(),
            bytes: 0,
        }
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.crc.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.crc.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
