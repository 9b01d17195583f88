//! Signed tokens (JWT, RFC 7519): parse, then verify with keys and rules of our own.
//!
//! ```text
//!   text --UnverifiedJwt::parse--> header, claims, signed bytes      8 KiB, strict base64url,
//!              |                                                     no key twice
//!              +--signed_by(keys, algorithms)--> claims              algorithm of our key
//!              +--ClaimRules::check(claims, now)--> accepted         exp, nbf, iat, iss, aud
//! ```
//!
//! The header of a token chooses among keys and algorithms that we trust already; it never adds
//! one. `none` and the HMAC algorithms do not exist here. `now` is an argument.

mod algorithm;
mod input;
mod key;
mod parse;
mod rules;
mod sign;

pub use algorithm::SigningAlgorithm;
pub use input::SigningInput;
pub use key::{KeyError, VerifyingKey};
pub use parse::{JWT_BYTES_MAX, JwtError, UnverifiedJwt};
pub use rules::{ClaimError, ClaimRules};
pub use sign::{SigningKey, sign};
