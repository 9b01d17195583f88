//! `bcrypt`, whose salt comes from the caller's seed, and the refusal of `rsadecrypt`.

use super::arguments::{bounded, text};
use super::{Answer, Arity, Context, Failure, Function, function};
use crate::value::Value;

const COST_DEFAULT: usize = 10;
const COST_MIN: usize = 4;

/// Each step doubles the time: this one takes about half a second.
const COST_MAX: usize = 13;

/// What cost 4 takes of the budget, doubled with each step: a file can hash sixteen passwords at
/// the default cost, or two at the highest.
const UNITS_AT_COST_MIN: usize = 64 * 1024;

/// The algorithm reads no more.
const PASSWORD_BYTES_MAX: usize = 72;

pub(super) static FUNCTIONS: &[Function] = &[
    function("bcrypt", Arity::between(1, 2), bcrypt),
    function("rsadecrypt", Arity::exactly(2), |_, _| {
        let failure = Failure::call("private keys do not belong into job files");
        Err(failure.hint("decrypt it before and give it as a variable"))
    }),
];

/// `bcrypt(password)` and `bcrypt(password, cost)`, in the form `$2a$COST$SALT+HASH`.
fn bcrypt(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let mut password = text(arguments, 0)?.into_bytes();
    if password.len() > PASSWORD_BYTES_MAX {
        let message = format!("a password ends at {PASSWORD_BYTES_MAX} bytes");
        return Err(Failure::argument(0, message));
    }
    let cost = match arguments.len() {
        1 => COST_DEFAULT,
        _ => bounded(arguments, 1, COST_MIN, COST_MAX)?,
    };
    context.spend(UNITS_AT_COST_MIN << (cost - COST_MIN))?;
    let salt = context.random_bytes(b"bcrypt");
    password.push(0);
    password.truncate(PASSWORD_BYTES_MAX);
    let rounds = u32::try_from(cost).unwrap_or(u32::MAX);
    let hash = ::bcrypt::bcrypt(rounds, salt, &password);
    // The last of the 24 bytes is never written.
    let (salt, hash) = (digits(&salt), digits(&hash[..23]));
    Ok(Value::String(format!("$2a${cost:02}${salt}{hash}")))
}

const ALPHABET: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Base64 with an alphabet of its own and without padding.
fn digits(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..=chunk.len() {
            let index = (group >> (18 - 6 * i)) & 63;
            out.push(char::from(ALPHABET[index as usize]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_are_those_of_a_published_hash() {
        // $2a$06$DCq7YPn5Rq63x1Lad4cll.TV4S6ytwfsfvkgY8jIucDrjc8deX1s. for the empty password.
        let salt = [
            0x14, 0x4b, 0x3d, 0x69, 0x1a, 0x7b, 0x4e, 0xcf, 0x39, 0xcf, 0x73, 0x5c, 0x7f, 0xa7,
            0xa7, 0x9c,
        ];
        assert_eq!(digits(&salt), "DCq7YPn5Rq63x1Lad4cll.");
        let hash = ::bcrypt::bcrypt(6, salt, &[0]);
        assert_eq!(digits(&hash[..23]), "TV4S6ytwfsfvkgY8jIucDrjc8deX1s.");
    }
}
