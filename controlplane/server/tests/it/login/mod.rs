//! Logins against a provider on loopback, honest and hostile.

mod honest;
mod hostile;
mod over_http;
mod private;
pub(crate) mod setup;
