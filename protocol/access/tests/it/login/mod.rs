//! Logins: tokens, keys, claims, rules and methods.

mod binding;
mod claims;
mod forged;
mod jwks;
mod keys;
mod method;
mod oidc;
mod rules;
