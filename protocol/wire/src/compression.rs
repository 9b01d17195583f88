//! zstd (RFC 8878) with contexts that are kept: making one costs more than compressing a job with
//! it. Pure: what a context keeps between two calls does not change what comes out.

use std::cell::RefCell;
use std::io::{self, Read as _};

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
pub fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(compressor) => compressor.compress(bytes),
        None => kept.insert(Compressor::new(LEVEL)?).compress(bytes),
    })
}

/// What was compressed, of at most `length` bytes.
///
/// # Errors
/// When it is no frame, or a longer one.
pub fn decompress(bytes: &[u8], length: usize) -> io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(decompressor) => decompressor.decompress(bytes, length),
        None => kept.insert(Decompressor::new()?).decompress(bytes, length),
    })
}

/// What was compressed, of at most `length_max` bytes; `None` = it is longer. The frame need not
/// say its length.
///
/// # Errors
/// When it is no frame.
pub fn decompress_bounded(bytes: &[u8], length_max: usize) -> io::Result<Option<Vec<u8>>> {
    match zstd::zstd_safe::get_frame_content_size(bytes) {
        Ok(Some(length)) => match usize::try_from(length) {
            Ok(length) if length <= length_max => decompress(bytes, length).map(Some),
            _ => Ok(None),
        },
        _ => {
            let mut found = Vec::new();
            let mut decoder = zstd::Decoder::new(bytes)?.take(length_max as u64 + 1);
            decoder.read_to_end(&mut found)?;
            Ok((found.len() <= length_max).then_some(found))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_whether_or_not_the_frame_says_its_length() {
        let said = compress(&[7; 1000]).unwrap();
        let unsaid = zstd::encode_all([7; 1000].as_slice(), 1).unwrap();
        for packed in [said, unsaid] {
            let found = decompress_bounded(&packed, 1000).unwrap();
            assert_eq!(found.as_deref(), Some([7; 1000].as_slice()));
            assert_eq!(decompress_bounded(&packed, 999).unwrap(), None);
        }
        decompress_bounded(b"no frame at all", 1000).unwrap_err();
    }

    #[test]
    fn a_context_that_failed_works_again() {
        let packed = compress(&[7; 1000]).unwrap();
        decompress(&packed, 999).unwrap_err();
        decompress(b"no frame", 1000).unwrap_err();
        assert_eq!(decompress(&packed, 1000).unwrap(), [7; 1000]);
        assert_eq!(compress(&[7; 1000]).unwrap(), packed);
    }
}
