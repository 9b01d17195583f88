//! Logins through an OpenID provider, without memory on the servers.
//!
//! ```text
//!   auth-url        server --AuthUrl--> browser --> provider
//!                     `-- state = sealed PendingLogin {method, redirect, nonce digest, verifier}
//!   complete-auth   provider --code, state--> CLI --> any server: opens the state, matches it,
//!                     exchanges the code (TokenAnswer), verifies the id token, makes a token
//! ```
//!
//! - [`discovery`]: the provider's own description;
//! - [`pending`]: the state that travels through the browser, and what it must match;
//! - [`request`]: the addresses and bodies that are sent;
//! - [`answer`]: what the token endpoint answers.

pub mod answer;
pub mod discovery;
pub mod pending;
pub mod request;

pub use answer::{TokenAnswer, TokenAnswerError};
pub use discovery::{Discovery, DiscoveryError};
pub use pending::{PENDING_LOGIN_TTL, PendingError, PendingLogin, nonce_digest};
pub use request::{AuthUrl, CodeExchange, form, percent_encode};
