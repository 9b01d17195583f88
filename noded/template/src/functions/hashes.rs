//! Checksums, as hexadecimal digits.

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::encoding::hexadecimal;
use super::{Function, function};
use crate::call::{Answer, Call};
use crate::value;

/// The block of SHA-256, for the keyed hash.
const BLOCK_BYTES: usize = 64;

pub(super) static FUNCTIONS: &[Function] = &[
    function("md5sum", 1, 1, |call| {
        let text = text(call, 0)?;
        Ok(value::text(hexadecimal(&md5::Md5::digest(text))))
    }),
    function("sha256Hex", 1, 1, sha256),
    function("hmacSHA256Hex", 2, 2, |call| {
        let (message, key) = (text(call, 0)?, text(call, 1)?);
        Ok(value::text(hexadecimal(&keyed(
            key.as_bytes(),
            message.as_bytes(),
        ))))
    }),
    function("sprig_sha256sum", 1, 1, sha256),
    function("sprig_sha1sum", 1, 1, |call| {
        let text = text(call, 0)?;
        let digest = <Sha1 as sha1::Digest>::digest(text);
        Ok(value::text(hexadecimal(&digest)))
    }),
    function("sprig_adler32sum", 1, 1, |call| {
        Ok(value::text(adler32(text(call, 0)?.as_bytes()).to_string()))
    }),
];

/// A text whose hash is charged.
fn text<'a>(call: &Call<'a>, index: usize) -> Result<&'a str, String> {
    let text = call.text(index)?;
    call.pass.spend(text.len() / 256)?;
    Ok(text)
}

fn sha256(call: &Call<'_>) -> Answer {
    Ok(value::text(hexadecimal(&Sha256::digest(text(call, 0)?))))
}

/// HMAC of RFC 2104 with SHA-256.
fn keyed(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        let digest = Sha256::digest(key);
        block[..digest.len()].copy_from_slice(&digest);
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let hashed = |pad: u8, text: &[u8]| {
        let mut hash = Sha256::new();
        hash.update(block.map(|byte| byte ^ pad));
        hash.update(text);
        hash.finalize().to_vec()
    };
    hashed(0x5c, &hashed(0x36, message))
}

/// Sprig prints it as a decimal number.
fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}
