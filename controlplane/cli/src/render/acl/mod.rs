//! Objects of access control, as Nomad's command line prints them.

pub(crate) mod auth_method;
pub(crate) mod binding_rule;
pub(crate) mod policy;
pub(crate) mod role;
pub(crate) mod token;
pub(crate) mod whoami;

use protocol_model::{UnixNanos, format_rfc3339};

/// A time, or nothing where there is none.
fn time(at: Option<UnixNanos>) -> String {
    let at = at.filter(|at| !at.is_zero());
    at.map_or_else(String::new, format_rfc3339)
}

/// Names in brackets: `[a b]`.
fn bracketed<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    format!("[{}]", names.join(" "))
}
