//! The part of a token that is signed. The signature comes from a key that is not ours to hold.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::SigningAlgorithm;

/// The members of a header, in the order in which they are written.
#[derive(Serialize)]
struct Header<'a> {
    alg: &'static str,
    kid: &'a str,
    typ: &'static str,
}

/// Header and claims, encoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SigningInput(String);

impl SigningInput {
    /// The input of a token with these claims. Members are written in the order of their fields, so
    /// that equal claims are equal bytes.
    ///
    /// # Panics
    /// Where the claims are not representable as JSON, which texts and numbers are.
    pub fn new(algorithm: SigningAlgorithm, kid: &str, claims: &impl Serialize) -> Self {
        let header = Header {
            alg: algorithm.as_str(),
            kid,
            typ: "JWT",
        };
        let header = serde_json::to_vec(&header).expect("texts are JSON");
        let claims = serde_json::to_vec(claims).expect("claims are JSON");
        let mut input = URL_SAFE_NO_PAD.encode(header);
        input.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut input);
        Self(input)
    }

    /// The bytes to sign.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The token.
    pub fn with_signature(self, signature: &[u8]) -> String {
        let mut token = self.0;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }
}
