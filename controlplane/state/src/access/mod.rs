//! The rows of access control: tokens, policies, roles, auth methods, binding rules, one-time
//! tokens, and the root keys that secrets are sealed with.
//!
//! Names, texts and limits follow Nomad's API. No row holds a secret in clear: a secret is a
//! digest, a [`Sealed`] value, or both.

pub(crate) mod hex;
mod method;
mod one_time;
mod policy;
mod role;
mod root_key;
mod rule;
mod sealed;
mod token;

pub use method::{
    AUTH_CONFIG_BYTES_MAX, AUTH_METHODS_MAX, AclAuthMethod, AuthMethodFault, AuthMethodKind,
    TokenLocality,
};
pub use one_time::{ONE_TIME_TOKEN_TTL, ONE_TIME_TOKENS_MAX, OneTimeToken};
pub use policy::{ACL_POLICIES_MAX, ACL_POLICY_BYTES_MAX, AclPolicy, JobAcl, PolicyFault};
pub use role::{ACL_ROLES_MAX, AclRole, RoleFault};
pub use root_key::{ROOT_KEYS_MAX, RootKey, RootKeyState};
pub use rule::{AclBindingRule, BINDING_RULES_MAX, BindType, BindingRuleFault};
pub use sealed::{SEALED_BYTES_MAX, Sealed, SealedCounts};
pub use token::{ACL_TOKENS_MAX, AclToken, AclTokenKind, TOKEN_NAME_LEN_MAX, TokenFault};

/// The most policies and roles that one token or role links to.
pub const ACL_LINKS_MAX: usize = 256;
/// The longest name of a policy, role or auth method, in bytes.
pub const ACL_NAME_LEN_MAX: usize = 128;
/// The longest description of a policy, role or binding rule, in bytes.
pub const ACL_DESCRIPTION_LEN_MAX: usize = 256;

/// Whether a policy, role or auth method may have this name: `^[a-zA-Z0-9-]{1,128}$`.
pub fn is_acl_name(name: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
    !name.is_empty() && name.len() <= ACL_NAME_LEN_MAX && name.bytes().all(allowed)
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
