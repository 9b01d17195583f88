//! What keeper and pump read: packets, plans, what an earlier keeper left, and the files that
//! describe streams.

use noded_keeper::io::StreamSpec;
use noded_keeper::keeper::formats::{lease_again, record_again, state_again};
use noded_keeper::protocol::{
    decode_from_client, decode_from_keeper, decode_plan, encode_for_client, encode_for_keeper,
    encode_plan,
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

/// The plan in the memory file beside a spawn request.
pub fn keeper_plan(data: &[u8]) -> Verdict {
    match decode_plan(data) {
        Ok(plan) => {
            // People read it when a step fails.
            assert!(!plan.to_string().is_empty());
            let written = encode_plan(&plan).expect("what was read can be written");
            let again = decode_plan(&written).expect("what was written is read");
            assert_eq!(again, plan);
            Verdict::Understood
        }
        Err(error) => Verdict::refused(&error),
    }
}

/// The record of a run or of a lease, with and without the checksum that belongs behind it.
pub fn keeper_record(data: &[u8]) -> Verdict {
    let sealed = with_checksum(data);
    let verdicts = [record_again, lease_again].map(|read| match same_again(read, data) {
        Verdict::Understood => Verdict::Understood,
        Verdict::Refused(_) => same_again(read, &sealed),
    });
    let [of_run, of_lease] = verdicts;
    if of_run == Verdict::Understood {
        of_run
    } else {
        of_lease
    }
}

/// The state that one build of keeper hands over to another, with and without its checksum.
pub fn keeper_state(data: &[u8]) -> Verdict {
    match same_again(state_again, data) {
        Verdict::Understood => Verdict::Understood,
        Verdict::Refused(_) => same_again(state_again, &with_checksum(data)),
    }
}

fn same_again(read: fn(&[u8]) -> Result<Vec<u8>, String>, data: &[u8]) -> Verdict {
    match read(data) {
        Ok(written) => {
            let again = read(&written).expect("what was written is read");
            assert_eq!(again, written);
            Verdict::Understood
        }
        Err(words) => Verdict::refused_with(words),
    }
}

fn with_checksum(data: &[u8]) -> Vec<u8> {
    [data, &crc32fast::hash(data).to_le_bytes()].concat()
}

/// The description of a stream, with and without the checksum that belongs behind it.
pub fn keeper_stream(data: &[u8]) -> Verdict {
    match stream(data) {
        Verdict::Understood => Verdict::Understood,
        Verdict::Refused(_) => stream(&with_checksum(data)),
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
