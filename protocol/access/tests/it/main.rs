//! Capabilities, policies and compiled rights, through the crate's public functions.

mod budgets;
mod capabilities;
mod corpus;
mod errors;
mod hostile;
mod identity;
mod login;
mod own_paths;
mod rights;

use std::path::PathBuf;

/// Holds a text against a frozen file. `DROVER_REWRITE=1` writes one that is not there yet; a file
/// that is there is never changed.
pub(crate) fn assert_golden(name: &str, text: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/frozen")
        .join(name);
    #[expect(
        clippy::disallowed_methods,
        reason = "a test reads and writes its golden files"
    )]
    let frozen = {
        if !file.exists() && std::env::var_os("DROVER_REWRITE").is_some() {
            std::fs::write(&file, text).expect("a folder for golden files");
        }
        std::fs::read_to_string(&file).unwrap_or_default()
    };
    assert!(text == frozen, "{name} differs; it is now:\n{text}");
}
