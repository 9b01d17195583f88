//! Workload identities: the claims that a task shows, built and read.
//!
//! ```text
//!   allocation, job, identity block --claims_of--> IdentityClaims --SigningInput--> token
//!   token, public halves --verify--> VerifiedIdentity --check--> audience and times hold
//! ```
//!
//! A token without a ttl is a pure function of allocation, task, identity and key: two servers sign
//! the same bytes (RS256 with PKCS#1 and EdDSA are deterministic).

mod claims;
mod issue;
mod verify;

pub use claims::{ClaimsError, IdentityClaims};
pub use issue::{IdentitySubject, claims_of, kid_of, signing_algorithm};
pub use verify::{PublicKeyPair, TokenError, VerifiedIdentity, verify, verify_published};

/// The audience of the API. Tokens without it open nothing there.
pub const OWN_AUDIENCE: &str = "nomadproject.io";

/// Added to the id of a root key, the name of its RSA key.
pub const RSA_KID_SUFFIX: &str = ".rsa";
