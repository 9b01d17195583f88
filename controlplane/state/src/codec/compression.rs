//! zstd with contexts that are kept: making one costs more than compressing a job with it.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

/// zstd's level: the log is written on the way of every change, so speed comes first.
const LEVEL: i32 = 1;

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// One frame that says its length.
///
/// # Errors
/// When there is no memory for it.
pub(super) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(compressor) => compressor.compress(bytes),
        None => kept.insert(Compressor::new(LEVEL)?).compress(bytes),
    })
}

/// What was compressed, of at most `length` bytes.
///
/// # Errors
/// When it is no frame, or a longer one.
pub(super) fn decompress(bytes: &[u8], length: usize) -> io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(decompressor) => decompressor.decompress(bytes, length),
        None => kept.insert(Decompressor::new()?).decompress(bytes, length),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_that_failed_works_again() {
        let packed = compress(&[7; 1000]).unwrap();
        decompress(&packed, 999).unwrap_err();
        decompress(b"no frame", 1000).unwrap_err();
        assert_eq!(decompress(&packed, 1000).unwrap(), [7; 1000]);
        assert_eq!(compress(&[7; 1000]).unwrap(), packed);
    }
}
