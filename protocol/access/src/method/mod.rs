//! Auth methods: which are stored, what in them is secret, how their tokens are named.
//!
//! - [`check_auth_method`]: every fault of a method, in Nomad's words where it has them;
//! - [`MethodSecrets`]: the secrets, taken out before a method is stored or shown;
//! - [`token_name`]: the name of a token that a login makes.

mod check;
mod name;
mod secrets;
mod url;

pub use check::{AuthMethodFault, TokenLifetimes, check_auth_method, signing_algorithms};
pub use name::{TokenNameError, token_name};
pub use secrets::{MethodSecrets, MethodSecretsError};
pub use url::{OutgoingUrl, UrlError};
