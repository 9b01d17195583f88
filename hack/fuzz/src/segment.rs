//! A segment of the servers' log: a header, and groups of records with checksums.

use bytes::Bytes;
use controlplane_raft::inspect_segment;

use crate::Verdict;

/// The segment that inputs are taken for.
const NUMBER: u64 = 1;

/// The bytes as a segment, and as the records of a segment's only group, whose checksums are
/// right. What was understood is understood without what follows its end, and holds the same.
pub fn log_segment(data: &[u8]) -> Verdict {
    let plain = segment(&Bytes::copy_from_slice(data));
    let sealed = segment(&sealed(data));
    match (plain, sealed) {
        (Verdict::Refused(_), sealed) => sealed,
        (understood, _) => understood,
    }
}

fn segment(bytes: &Bytes) -> Verdict {
    match inspect_segment(NUMBER, bytes) {
        Ok(content) => {
            let again = inspect_segment(NUMBER, &bytes.slice(..content.end));
            assert_eq!(again, Ok(content), "what follows the end says nothing");
            Verdict::Understood
        }
        Err(reason) => Verdict::Refused(reason),
    }
}

/// A segment whose only group holds these records; its layout is frozen by the log's own tests.
fn sealed(records: &[u8]) -> Bytes {
    let mut bytes = b"drvlog01".to_vec();
    bytes.extend(7_u64.to_be_bytes());
    bytes.extend(NUMBER.to_be_bytes());
    bytes.extend([0; 12]);
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    let mut body = records.to_vec();
    body.resize(records.len().next_multiple_of(8), 0);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&NUMBER.to_be_bytes());
    crc.update(&(bytes.len() as u64).to_be_bytes());
    crc.update(&body);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_be_bytes());
    bytes.extend(crc.finalize().to_be_bytes());
    bytes.extend(body);
    bytes.into()
}
