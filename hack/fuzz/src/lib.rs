//! What every decoder is fed: one function per format that comes from a peer, a disk or a user.
//!
//! A target takes any bytes and must not panic; it answers with a [`Verdict`]. Where the bytes are
//! understood it also holds the decoder against its encoder: what was read is written and read
//! again, and has to be the same.
//!
//! [`TARGETS`] lists them all. Two things feed them:
//!
//! - `tests/it`: with every `cargo test`, for about two seconds each: the frozen bytes of the
//!   format, cut and bent systematically and then at random from a printed seed;
//! - `libfuzzer/`: for as long as one likes, guided by coverage (see `README.md`).
//!
//! Input: bytes. Output: a verdict, or a panic that is a bug in the decoder.

mod access;
mod artifacts;
mod checkpoints;
mod entries;
mod frames;
mod identities;
mod jail;
mod jobs;
mod journal;
mod keeper;
mod keyring;
mod logins;
mod messages;
mod network;
mod requests;
mod segment;
mod task_requests;
mod templates;
mod verdict;

pub use access::acl_policy;
pub use artifacts::{artifact_source, artifact_tar, artifact_zip};
pub use checkpoints::{checkpoint, checkpoint_records};
pub use entries::{log_entry, log_history, log_outcome};
pub use frames::frame;
pub use identities::{kept_identities, public_keys};
pub use jail::jail_frame;
pub use jobs::{job_document, job_file};
pub use journal::{journal, journal_file, node_metadata};
pub use keeper::{keeper_packet, keeper_plan, keeper_record, keeper_state, keeper_stream};
pub use keyring::{kek_file, sealed_value};
pub use logins::{discovery_document, key_set, login_token, pending_login, token_answer};
pub use messages::wire_message;
pub use network::{netlink_answer, nft_description};
pub use requests::http_request;
pub use segment::log_segment;
pub use task_requests::task_request;
pub use templates::template;
pub use verdict::Verdict;

/// One decoder under test.
pub type Target = fn(&[u8]) -> Verdict;

/// Every target by its name, which is also the name of its wrapper in `libfuzzer/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("acl_policy", acl_policy),
    ("artifact_source", artifact_source),
    ("artifact_tar", artifact_tar),
    ("artifact_zip", artifact_zip),
    ("checkpoint", checkpoint),
    ("checkpoint_records", checkpoint_records),
    ("discovery_document", discovery_document),
    ("frame", frame),
    ("http_request", http_request),
    ("jail_frame", jail_frame),
    ("job_document", job_document),
    ("job_file", job_file),
    ("journal", journal),
    ("journal_file", journal_file),
    ("keeper_packet", keeper_packet),
    ("keeper_plan", keeper_plan),
    ("keeper_record", keeper_record),
    ("keeper_state", keeper_state),
    ("keeper_stream", keeper_stream),
    ("kek_file", kek_file),
    ("kept_identities", kept_identities),
    ("key_set", key_set),
    ("log_entry", log_entry),
    ("log_history", log_history),
    ("log_outcome", log_outcome),
    ("log_segment", log_segment),
    ("login_token", login_token),
    ("netlink_answer", netlink_answer),
    ("nft_description", nft_description),
    ("node_metadata", node_metadata),
    ("pending_login", pending_login),
    ("public_keys", public_keys),
    ("sealed_value", sealed_value),
    ("task_request", task_request),
    ("template", template),
    ("token_answer", token_answer),
    ("wire_message", wire_message),
];
