//! Access tokens.

use std::time::Duration;

use protocol_model::UnixNanos;
use serde::{Deserialize, Serialize};

use super::{ACL_LINKS_MAX, Sealed};
use crate::record::Digest;

/// The most tokens that a cluster keeps.
pub const ACL_TOKENS_MAX: usize = 1_000_000;
/// The longest name of a token, in bytes.
pub const TOKEN_NAME_LEN_MAX: usize = 256;

/// An access token, without its secret in clear.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AclToken {
    /// Its public id, as a UUID text.
    pub accessor_id: String,
    /// SHA-256 of its secret: requests are matched by it.
    pub secret_hash: Digest,
    /// The secret, sealed, for showing it. `None` where an older release or a bootstrap without a
    /// root key made the token: such a secret is never shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
    /// Its name, for people.
    pub name: String,
    /// Whether policies limit it.
    pub kind: AclTokenKind,
    /// The names of its policies. They need not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// The ids of its roles. A role may have been deleted since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Whether other regions may use it: kept and shown. Older releases made global tokens only.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub global: bool,
    /// The time from which it is refused; `None` = never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration: Option<UnixNanos>,
    /// How long it lives from its creation, as its creator asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// The time of its creation.
    #[serde(default)]
    pub create_time: UnixNanos,
    /// The log index of its creation.
    #[serde(default)]
    pub create_index: u64,
    /// The log index of its last change.
    #[serde(default)]
    pub modify_index: u64,
}

fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_yes(value: &bool) -> bool {
    *value
}

/// Whether policies limit a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AclTokenKind {
    /// It may do everything.
    Management,
    /// It may do what its policies and roles allow.
    Client,
}

impl AclTokenKind {
    /// The kind as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Management => "management",
            Self::Client => "client",
        }
    }
}

/// Why a token is not written. The texts are Nomad's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum TokenFault {
    /// It has no accessor id.
    #[error("token has no accessor id")]
    NoAccessor,
    /// Its name is longer than [`TOKEN_NAME_LEN_MAX`].
    #[error("token name too long")]
    NameTooLong,
    /// A client token that could do nothing.
    #[error("client token missing policies or roles")]
    ClientWithoutRights,
    /// A management token needs no rights.
    #[error("management token cannot be associated with policies or roles")]
    ManagementWithRights,
    /// It links to more than [`ACL_LINKS_MAX`] policies or roles.
    #[error("token links to {found} policies or roles: at most {ACL_LINKS_MAX} are allowed")]
    TooManyLinks {
        /// The larger of both numbers.
        found: usize,
    },
    /// An update names another lifetime.
    #[error("cannot update expiration TTL")]
    TtlChanged,
    /// An update names another expiration.
    #[error("cannot update expiration time")]
    ExpirationChanged,
    /// An update makes a local token global, or a global one local.
    #[error("cannot toggle global mode")]
    GlobalToggled,
}

impl AclToken {
    /// The first fault of a token that is to be written; `before` is the row that it replaces.
    pub fn fault(&self, before: Option<&Self>) -> Option<TokenFault> {
        let links = self.policies.len().max(self.roles.len());
        if self.accessor_id.is_empty() {
            return Some(TokenFault::NoAccessor);
        }
        if self.name.len() > TOKEN_NAME_LEN_MAX {
            return Some(TokenFault::NameTooLong);
        }
        if links > ACL_LINKS_MAX {
            return Some(TokenFault::TooManyLinks { found: links });
        }
        match self.kind {
            AclTokenKind::Client if links == 0 => return Some(TokenFault::ClientWithoutRights),
            AclTokenKind::Management if links > 0 => return Some(TokenFault::ManagementWithRights),
            AclTokenKind::Client | AclTokenKind::Management => {}
        }
        let before = before?;
        if before.global != self.global {
            return Some(TokenFault::GlobalToggled);
        }
        if before.ttl != self.ttl {
            return Some(TokenFault::TtlChanged);
        }
        (before.expiration != self.expiration).then_some(TokenFault::ExpirationChanged)
    }

    /// Whether it is expired at `now`.
    pub fn is_expired(&self, now: UnixNanos) -> bool {
        self.expiration.is_some_and(|expiration| expiration <= now)
    }

    /// Whether every release applies a token like this: no field has a value that the first one did
    /// not know.
    pub(crate) fn is_of_first_release(&self) -> bool {
        let Self {
            accessor_id: _,
            secret_hash: _,
            sealed,
            name: _,
            kind,
            policies,
            roles,
            global,
            expiration,
            ttl,
            create_time: _,
            create_index: _,
            modify_index: _,
        } = self;
        sealed.is_none()
            && *kind == AclTokenKind::Management
            && policies.is_empty()
            && roles.is_empty()
            && *global
            && expiration.is_none()
            && ttl.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_first_release_is_read_and_written_as_it_was() {
        let digest = vec!["9"; 32].join(",");
        let row = format!(
            "{{\"accessor_id\":\"a\",\"secret_hash\":[{digest}],\"name\":\"Bootstrap Token\",\
             \"kind\":\"management\",\"create_time\":1,\"create_index\":2,\"modify_index\":2}}"
        );
        let token: AclToken = serde_json::from_str(&row).expect("a token");
        assert!(token.is_of_first_release());
        assert!(token.global, "as the API showed it");
        assert!(!token.is_expired(UnixNanos(i64::MAX)));
        assert_eq!(serde_json::to_string(&token).expect("a row"), row);
        let later = [
            AclToken {
                kind: AclTokenKind::Client,
                ..token.clone()
            },
            AclToken {
                ttl: Some(Duration::from_secs(1)),
                ..token.clone()
            },
            AclToken {
                global: false,
                ..token
            },
        ];
        assert!(later.iter().all(|token| !token.is_of_first_release()));
    }
}
