//! What callers of the HTTP API send: bodies, messages of `exec`, paths and parameters.

use controlplane_server::http::requests::READERS;

use crate::Verdict;

/// The position of a reader in the list of all, then what it reads.
pub fn http_request(data: &[u8]) -> Verdict {
    let Some((&position, bytes)) = data.split_first() else {
        return Verdict::Refused("there is no reader".to_owned());
    };
    match READERS.get(usize::from(position)) {
        None => Verdict::Refused("there is no such reader".to_owned()),
        Some((_, read)) => match read(bytes) {
            Ok(()) => Verdict::Understood,
            Err(words) => Verdict::refused_with(words),
        },
    }
}
