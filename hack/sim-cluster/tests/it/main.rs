//! The simulator of whole servers and nodes as a test: a few seeds, the same schedule twice,
//! planted bugs found. More of each is `cargo xtask sim cluster`.

mod mutants;
mod seeds;
