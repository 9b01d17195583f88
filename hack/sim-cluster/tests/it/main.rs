//! The simulator of whole servers and nodes as a test: a few seeds, the same schedule twice,
//! planted bugs found. More of each is `cargo xtask sim cluster`.

mod first_key;
mod mutants;
mod seeds;
