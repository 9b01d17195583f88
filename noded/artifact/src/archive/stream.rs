//! Decompression and copying of streams.

use std::io::{self, BufReader, Read, Write};

use super::Compression;
use crate::COPY_BYTES;

/// Memory that a decoder of xz may take: presets up to 9 need 65 MiB.
const XZ_MEMORY_BYTES_MAX: u64 = 192 * 1024 * 1024;
/// Window of zstd: 128 MiB, as `zstd` itself accepts without `--long`.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// The plain bytes of a compressed stream, all its members one after the other.
pub(crate) fn decompressor<'a>(
    compression: Option<Compression>,
    stream: impl Read + 'a,
) -> io::Result<Box<dyn Read + 'a>> {
    let stream = BufReader::with_capacity(COPY_BYTES, stream);
    Ok(match compression {
        None => Box::new(stream),
        Some(Compression::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(stream)),
        Some(Compression::Bzip2) => Box::new(bzip2::bufread::MultiBzDecoder::new(stream)),
        Some(Compression::Xz) => {
            let decoder = liblzma::stream::Stream::new_stream_decoder(
                XZ_MEMORY_BYTES_MAX,
                liblzma::stream::CONCATENATED,
            )?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(stream, decoder))
        }
        Some(Compression::Zstd) => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(stream)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
    })
}

/// Copies a stream to its end.
pub(crate) fn copy(from: &mut dyn Read, into: &mut dyn Write) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => into.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
