//! Real QUIC, real processes.
