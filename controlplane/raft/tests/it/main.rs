//! Whole servers over QUIC on the loopback address, with their files in temporary directories.

mod cluster;
mod faults;
mod forming;
mod machine;
mod membership;
mod single;
