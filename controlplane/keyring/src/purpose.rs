//! The purposes of sealed values. Each has a key of its own, so that a value sealed for one of
//! them never opens as another.

/// The purpose of a sealed value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// Secrets of access tokens, which `acl token info` shows.
    Tokens,
    /// The pending login that travels in its own `state`.
    Logins,
    /// Secrets in the configuration of auth methods.
    Methods,
    /// Items of variables.
    Variables,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 4] = [Self::Tokens, Self::Logins, Self::Methods, Self::Variables];

    /// The text that its key is derived with, version included. Fixed forever.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tokens => "tokens/1",
            Self::Logins => "logins/1",
            Self::Methods => "methods/1",
            Self::Variables => "variables/1",
        }
    }
}

/// The label that the seed of the Ed25519 signing key is derived with.
pub(crate) const SIGNING: &str = "ed25519/1";
