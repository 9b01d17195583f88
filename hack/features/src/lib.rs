//! Selects the features of the whole workspace in a command that names few of its crates.
//!
//! It has no code: its manifest lists the third-party crates of all members. `cargo test -p CRATE
//! -p hack-features` compiles the units that `cargo test --workspace` compiles, and no second set.
