//! What keeper and pump read: packets, and the files that describe streams.

use noded_keeper::io::StreamSpec;
use noded_keeper::protocol::{
    decode_from_client, decode_from_keeper, encode_for_client, encode_for_keeper,
};

use crate::Verdict;

/// A packet, read by either side.
pub fn keeper_packet(data: &[u8]) -> Verdict {
    let request = decode_from_client(data);
    if let Ok((call, request)) = &request {
        let written = encode_for_keeper(*call, request).expect("what was read can be written");
        let again = decode_from_client(&written).expect("what was written is read");
        assert_eq!(again, (*call, request.clone()));
    }
    match (decode_from_keeper(data), request) {
        (Ok(message), _) => {
            let written = encode_for_client(&message).expect("what was read can be written");
            let again = decode_from_keeper(&written).expect("what was written is read");
            assert_eq!(again, message);
            Verdict::Understood
        }
        (Err(_), Ok(_)) => Verdict::Understood,
        (Err(of_message), Err(of_request)) => {
            Verdict::refused(&of_message);
            Verdict::refused(&of_request)
        }
    }
}

/// The description of a stream, with and without the checksum that belongs behind it.
pub fn keeper_stream(data: &[u8]) -> Verdict {
    let sealed = [data, &crc32fast::hash(data).to_le_bytes()].concat();
    match stream(data) {
        Verdict::Understood => Verdict::Understood,
        Verdict::Refused(_) => stream(&sealed),
    }
}

fn stream(bytes: &[u8]) -> Verdict {
    match StreamSpec::decode(bytes) {
        Ok(spec) => {
            let written = spec.encode().expect("what was read can be written");
            let again = StreamSpec::decode(&written).expect("what was written is read");
            assert_eq!(again, spec);
            Verdict::Understood
        }
        Err(error) => Verdict::refused(&error),
    }
}
