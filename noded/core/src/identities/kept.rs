//! The tokens of one allocation in bytes: a restarted daemon asks no server for them.
//!
//! The file lies in memory (`run_dir`, 0600). It names the boot of the host whose clock it counts
//! by: after another one it means nothing.

use serde::{Deserialize, Serialize};

use super::token::HeldToken;
use crate::key::BootId;

/// The version that this release writes and reads.
pub const KEPT_VERSION: u32 = 1;

/// The tokens of one allocation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeptIdentities {
    version: u32,
    /// The boot whose clock they count by.
    pub boot: BootId,
    /// The tokens, in the order of their names.
    pub identities: Vec<KeptIdentity>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeptIdentity {
    /// The task.
    pub task: String,
    /// The identity's name.
    pub identity: String,
    /// The token.
    pub token: HeldToken,
    /// Whether its task is still to be told that it takes the place of another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undelivered: bool,
}

/// Why kept tokens cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// They are damaged.
    #[error("the kept identities could not be decoded")]
    Decode(#[source] serde_json::Error),
    /// Another release wrote them.
    #[error("the kept identities have version {version}, this release reads {KEPT_VERSION}")]
    Version {
        /// The version.
        version: u32,
    },
}

impl KeptIdentities {
    /// Tokens that came in this boot of the host.
    pub fn new(boot: BootId, identities: Vec<KeptIdentity>) -> Self {
        Self {
            version: KEPT_VERSION,
            boot,
            identities,
        }
    }

    /// Their bytes.
    ///
    /// # Errors
    /// None of this release's values lacks a JSON form.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// The tokens in these bytes.
    ///
    /// # Errors
    /// Where they are damaged, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, KeptError> {
        let kept: Self = serde_json::from_slice(bytes).map_err(KeptError::Decode)?;
        match kept.version {
            KEPT_VERSION => Ok(kept),
            version => Err(KeptError::Version { version }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::identities::Jwt;
    use crate::time::Moment;

    const FROZEN: &str = include_str!("../../tests/golden/v1/identities.bin");

    fn sample() -> KeptIdentities {
        let token = |jwt: &str, ttl| HeldToken {
            jwt: Jwt::new(jwt),
            ttl,
            root_key: 3,
            came: Moment(Duration::from_millis(1500)),
            expiry_told: false,
        };
        let kept = |identity: &str, token| KeptIdentity {
            task: "web".to_owned(),
            identity: identity.to_owned(),
            token,
            undelivered: false,
        };
        let identities = vec![
            kept("cloud", token("h.p.s", Some(Duration::from_secs(60)))),
            kept("default", token("a.b.c", None)),
        ];
        KeptIdentities::new(BootId([7; 16]), identities)
    }

    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        let bytes = sample().encode().expect("encodes");
        assert_eq!(String::from_utf8_lossy(&bytes), FROZEN.trim_end());
        let decoded = KeptIdentities::decode(FROZEN.as_bytes()).expect("decodes");
        assert_eq!(decoded, sample());
    }

    #[test]
    fn notes_beside_a_token_are_read_as_they_were_written() {
        let mut kept = sample();
        kept.identities[0].undelivered = true;
        kept.identities[1].token.expiry_told = true;
        let bytes = kept.encode().expect("encodes");
        assert_eq!(KeptIdentities::decode(&bytes).expect("decodes"), kept);
    }

    #[test]
    fn kept_identities_of_another_version_are_refused() {
        let text = FROZEN.replacen("\"version\":1", "\"version\":2", 1);
        let refused = KeptIdentities::decode(text.as_bytes());
        assert!(matches!(refused, Err(KeptError::Version { version: 2 })));
    }

    #[test]
    fn a_token_is_in_no_debug_text() {
        assert!(!format!("{:?}", sample()).contains("h.p.s"));
    }
}
