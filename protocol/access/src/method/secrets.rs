//! The secrets of a method, apart from the rest of it.
//!
//! ```text
//!   written:  Config --keep(stored)--> "redacted" becomes the stored secret
//!             Config --take()--> Config with "redacted" (log, answers) + MethodSecrets (sealed)
//!   used:     Config + opened MethodSecrets --put_back--> Config as it was written
//! ```

use protocol_model::{AuthMethodConfig, REDACTED, SecretText};
use serde::{Deserialize, Serialize};

/// The version of the bytes that are sealed.
const VERSION: u8 = 1;

/// The secrets of one method. They are sealed together, under the method's name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MethodSecrets {
    /// `OIDCClientSecret`.
    pub client_secret: SecretText,
    /// `OIDCClientAssertion.PrivateKey.PemKey`.
    pub assertion_key: SecretText,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bytes {
    version: u8,
    #[serde(default, skip_serializing_if = "SecretText::is_empty")]
    client_secret: SecretText,
    #[serde(default, skip_serializing_if = "SecretText::is_empty")]
    assertion_key: SecretText,
}

/// Why secrets cannot be read or kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MethodSecretsError {
    /// The opened bytes are of another release, or damaged.
    #[error("the sealed secrets of the method are not of version {VERSION}")]
    Version,
    /// `redacted` was written where no secret is stored.
    #[error("{0} is \"redacted\", and no secret is stored: write the secret itself")]
    NothingStored(&'static str),
}

impl MethodSecrets {
    /// Takes the secrets out of `config`; what was there reads `redacted` then.
    #[must_use]
    pub fn take(config: &mut AuthMethodConfig) -> Self {
        let redacted = |secret: &mut SecretText| match secret.is_empty() {
            true => SecretText::default(),
            false => std::mem::replace(secret, SecretText::new(REDACTED)),
        };
        let assertion = config.oidc_client_assertion.as_mut();
        let key = assertion.and_then(|assertion| assertion.private_key.as_mut());
        Self {
            client_secret: redacted(&mut config.oidc_client_secret),
            assertion_key: key.map_or_else(SecretText::default, |key| redacted(&mut key.pem_key)),
        }
    }

    /// Puts these secrets in the place of each `redacted`: for a method that is used, and for a
    /// configuration that a client read and writes back.
    ///
    /// # Errors
    /// Where `redacted` stands for a secret that is not among these.
    pub fn put_back(&self, config: &mut AuthMethodConfig) -> Result<(), MethodSecretsError> {
        let put = |field, secret: &mut SecretText, own: &SecretText| {
            if !secret.is_redacted() {
                return Ok(());
            }
            if own.is_empty() {
                return Err(MethodSecretsError::NothingStored(field));
            }
            *secret = own.clone();
            Ok(())
        };
        put(
            "OIDCClientSecret",
            &mut config.oidc_client_secret,
            &self.client_secret,
        )?;
        let assertion = config.oidc_client_assertion.as_mut();
        match assertion.and_then(|assertion| assertion.private_key.as_mut()) {
            None => Ok(()),
            Some(key) => put("PemKey", &mut key.pem_key, &self.assertion_key),
        }
    }

    /// Whether there is nothing to seal.
    pub fn is_empty(&self) -> bool {
        self.client_secret.is_empty() && self.assertion_key.is_empty()
    }

    /// The bytes that are sealed.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = Bytes {
            version: VERSION,
            client_secret: self.client_secret.clone(),
            assertion_key: self.assertion_key.clone(),
        };
        // Texts and a number: nothing in it can fail.
        serde_json::to_vec(&bytes).unwrap_or_default()
    }

    /// Reads opened bytes.
    ///
    /// # Errors
    /// Where they are none of [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MethodSecretsError> {
        let read: Bytes = serde_json::from_slice(bytes).map_err(|_| MethodSecretsError::Version)?;
        if read.version != VERSION {
            return Err(MethodSecretsError::Version);
        }
        Ok(Self {
            client_secret: read.client_secret,
            assertion_key: read.assertion_key,
        })
    }
}
