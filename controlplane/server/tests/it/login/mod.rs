//! Logins against a provider on loopback, honest and hostile.

mod honest;
mod hostile;
mod setup;
