//! Where inputs begin: the frozen bytes of each format, and what a small cluster leaves behind.
//!
//! Here: how files of the repository are found, and the messages. `log`: the control plane's log
//! and checkpoints. `node`: the keeper's and the journal's.
//! `network`: answers of the kernel and of nft. `users`: job files and requests. `artifacts`: their
//! sources and archives.

mod artifacts;
mod log;
mod network;
mod node;
mod users;

pub(crate) use artifacts::{artifact_sources, artifact_tars, artifact_zips};
pub(crate) use log::{
    checkpoint_records, checkpoints, entries, histories, outcomes, refusals, segments,
};
pub(crate) use network::{netlink_answers, nft_descriptions};
pub(crate) use node::{
    jail_frames, journal_files, journals, packets, plans, records, states, streams,
};
pub(crate) use users::{acl_policies, job_documents, job_files, requests, templates};

use std::path::{Path, PathBuf};

use bytes::BytesMut;
use protocol_transport::frame;

/// A path relative to the root of the repository.
pub(crate) fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The files of a folder whose names begin so, by name.
pub(crate) fn files(folder: &str, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let folder = in_repository(folder);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, std::fs::read(&path).expect("a readable file"))
        })
        .filter(|(name, _)| name.starts_with(prefix))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "nothing in {}", folder.display());
    files
}

/// The frozen file of a node's dynamic metadata.
pub(crate) fn node_metadata() -> Vec<Vec<u8>> {
    bytes_of(files("noded/core/tests/golden/v1", "metadata"))
}

/// The frozen KEK file.
pub(crate) fn kek_files() -> Vec<Vec<u8>> {
    bytes_of(files("controlplane/keyring/tests/golden/v1", "kek_file"))
}

/// Requests of tasks.
pub(crate) fn task_requests() -> Vec<Vec<u8>> {
    bytes_of(files("hack/fuzz/seeds", "task-request-"))
}

/// The frozen tokens that a node holds.
pub(crate) fn kept_identities() -> Vec<Vec<u8>> {
    bytes_of(files("noded/core/tests/golden/v1", "identities.bin"))
}

/// The frozen public keys of a node.
pub(crate) fn public_keys() -> Vec<Vec<u8>> {
    bytes_of(files("noded/daemon/tests/golden/v1", "keys.bin"))
}

/// Tokens of identity providers.
pub(crate) fn login_tokens() -> Vec<Vec<u8>> {
    bytes_of(files("hack/fuzz/seeds", "login-token-"))
}

/// Key sets of identity providers.
pub(crate) fn key_sets() -> Vec<Vec<u8>> {
    bytes_of(files("hack/fuzz/seeds", "login-keys-"))
}

/// Discovery documents of identity providers.
pub(crate) fn discoveries() -> Vec<Vec<u8>> {
    bytes_of(files("hack/fuzz/seeds", "login-discovery-"))
}

/// Answers of token endpoints.
pub(crate) fn token_answers() -> Vec<Vec<u8>> {
    bytes_of(files("hack/fuzz/seeds", "login-answer-"))
}

/// The frozen state of a login.
pub(crate) fn pending_logins() -> Vec<Vec<u8>> {
    bytes_of(files("protocol/access/tests/frozen", "pending_login_"))
}

/// A frozen sealed value of each purpose.
pub(crate) fn sealed_values() -> Vec<Vec<u8>> {
    bytes_of(files("controlplane/keyring/tests/golden/v1", "sealed_"))
}

fn bytes_of(files: Vec<(String, Vec<u8>)>) -> Vec<Vec<u8>> {
    files.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Each frozen message: its kind byte and its body.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    bytes_of(files("protocol/wire/tests/golden/v1", ""))
}

/// Each frozen message in a frame, and three frames in a row.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let framed = |message: &Vec<u8>| {
        let mut frame = BytesMut::new();
        frame::encode(message[0], &message[1..], 4096, &mut frame).expect("it fits");
        frame.to_vec()
    };
    let mut seeds: Vec<Vec<u8>> = messages().iter().map(framed).collect();
    seeds.push(seeds[..3].concat());
    seeds
}
