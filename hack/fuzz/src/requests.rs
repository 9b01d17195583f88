//! What callers of the HTTP API send: bodies, messages of `exec`, paths and parameters.

use controlplane_server::http::requests::readers;

use crate::Verdict;

/// The position of a reader among all by their names, then what it reads.
pub fn http_request(data: &[u8]) -> Verdict {
    let Some((&position, bytes)) = data.split_first() else {
        return Verdict::Refused("there is no reader".to_owned());
    };
    match readers().values().nth(usize::from(position)) {
        None => Verdict::Refused("there is no such reader".to_owned()),
        Some(read) => match read(bytes) {
            Ok(()) => Verdict::Understood,
            Err(words) => Verdict::refused_with(words),
        },
    }
}
