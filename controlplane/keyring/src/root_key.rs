//! Root keys: the material that everything else is derived from. A leader makes one; the log has it
//! wrapped; only memory has it in clear.

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256};
use zeroize::Zeroizing;

use crate::purpose::{Purpose, SIGNING};

/// The length of the seed, and of every key that is derived from it.
const SEED_BYTES: usize = 32;
/// The longest PKCS#8 document of an RSA-2048 key: it has about 1,220 bytes.
const PKCS8_BYTES_MAX: usize = 4096;
/// The length of an RSA-2048 modulus.
const MODULUS_BYTES: usize = 256;

/// Why key material is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RootKeyError {
    /// Its length cannot be right.
    #[error("a root key of {0} bytes cannot be read")]
    Length(usize),
    /// The RSA half is no RSA-2048 key in PKCS#8.
    #[error("the RSA half of the root key is no RSA-2048 key")]
    Rsa,
    /// The library made no key.
    #[error("no RSA key could be made")]
    Generate,
}

/// The public halves of a root key's two signing keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicHalves {
    /// Ed25519 (RFC 8032), 32 bytes.
    pub ed25519: [u8; 32],
    /// RSA, a `RSAPublicKey` of PKCS#1 (RFC 8017, A.1.1) in DER.
    pub rsa: Vec<u8>,
}

/// A root key in clear. Its material is overwritten when it is dropped.
#[expect(
    missing_debug_implementations,
    reason = "a derived one would print the key"
)]
pub struct RootKey {
    seed: Zeroizing<[u8; SEED_BYTES]>,
    pkcs8: Zeroizing<Vec<u8>>,
    public: PublicHalves,
    ed25519: Ed25519KeyPair,
    rsa: rsa::KeyPair,
    /// One for each of [`Purpose::ALL`], in that order.
    sealing: [LessSafeKey; Purpose::ALL.len()],
}

impl RootKey {
    /// A new root key. Takes about 100 ms, so it is made off the threads of a runtime.
    ///
    /// # Errors
    /// When the library makes no RSA key.
    ///
    /// # Panics
    /// When the operating system has no random bytes, which Linux excludes after boot.
    pub fn generate() -> Result<Self, RootKeyError> {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        rand::fill(&mut *seed).expect("the operating system gives random bytes");
        let pair = rsa::KeyPair::generate(KeySize::Rsa2048).map_err(|_| RootKeyError::Generate)?;
        let pkcs8 = pair.as_der().map_err(|_| RootKeyError::Generate)?;
        Self::from_parts(seed, pkcs8.as_ref())
    }

    /// The root key of a seed and of an RSA-2048 key in PKCS#8.
    ///
    /// # Errors
    /// When the second part is no such key.
    pub fn from_parts(
        seed: Zeroizing<[u8; SEED_BYTES]>,
        pkcs8: &[u8],
    ) -> Result<Self, RootKeyError> {
        if pkcs8.len() > PKCS8_BYTES_MAX {
            return Err(RootKeyError::Length(pkcs8.len()));
        }
        let pair = rsa::KeyPair::from_pkcs8(pkcs8).map_err(|_| RootKeyError::Rsa)?;
        if pair.public_modulus_len() != MODULUS_BYTES {
            return Err(RootKeyError::Rsa);
        }
        let signing_seed = derive(&seed, SIGNING);
        let signing = Ed25519KeyPair::from_seed_unchecked(&*signing_seed)
            .expect("every 32 bytes are a seed of Ed25519");
        let ed25519_public = signing.public_key().as_ref();
        let public = PublicHalves {
            ed25519: ed25519_public
                .try_into()
                .expect("Ed25519 keys have 32 bytes"),
            rsa: pair.public_key().as_ref().to_vec(),
        };
        Ok(Self {
            sealing: Purpose::ALL.map(|purpose| aead_key(&derive(&seed, purpose.label()))),
            seed,
            pkcs8: Zeroizing::new(pkcs8.to_vec()),
            public,
            ed25519: signing,
            rsa: pair,
        })
    }

    /// Reads what [`Self::reveal`] wrote.
    ///
    /// # Errors
    /// When it is no root key.
    pub(crate) fn from_material(material: &[u8]) -> Result<Self, RootKeyError> {
        let (seed, pkcs8) = material
            .split_first_chunk::<SEED_BYTES>()
            .ok_or(RootKeyError::Length(material.len()))?;
        Self::from_parts(Zeroizing::new(*seed), pkcs8)
    }

    /// The seed, then the PKCS#8 document.
    pub(crate) fn reveal(&self) -> Zeroizing<Vec<u8>> {
        let bytes = SEED_BYTES + self.pkcs8.len();
        let mut material = Zeroizing::new(Vec::with_capacity(bytes));
        material.extend_from_slice(&*self.seed);
        material.extend_from_slice(&self.pkcs8);
        material
    }

    /// The public halves of its signing keys.
    pub fn public(&self) -> &PublicHalves {
        &self.public
    }

    /// Signs with the Ed25519 key: 64 bytes, 14 us.
    pub(crate) fn sign_ed25519(&self, message: &[u8]) -> Vec<u8> {
        self.ed25519.sign(message).as_ref().to_vec()
    }

    /// Signs with the RSA key (PKCS#1, SHA-256): 256 bytes, 0.7 ms. The same bytes each time.
    pub(crate) fn sign_rsa(&self, message: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.rsa.public_modulus_len()];
        self.rsa
            .sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                message,
                &mut signature,
            )
            .expect("the signature has the length of the modulus");
        signature
    }

    /// The key that seals for `purpose`.
    pub(crate) fn sealing(&self, purpose: Purpose) -> &LessSafeKey {
        &self.sealing[purpose as usize]
    }
}

/// AES-256-GCM with `key`.
pub(crate) fn aead_key(key: &[u8; SEED_BYTES]) -> LessSafeKey {
    let unbound = UnboundKey::new(&AES_256_GCM, key).expect("AES-256 has keys of 32 bytes");
    LessSafeKey::new(unbound)
}

/// HKDF-SHA256 (RFC 5869) without salt, `label` as its info.
fn derive(seed: &[u8; SEED_BYTES], label: &str) -> Zeroizing<[u8; SEED_BYTES]> {
    let mut key = Zeroizing::new([0; SEED_BYTES]);
    let secret = Salt::new(HKDF_SHA256, &[]).extract(seed);
    let info = [label.as_bytes()];
    secret
        .expand(&info, KeyLength)
        .and_then(|output| output.fill(&mut *key))
        .expect("32 bytes are within HKDF's limit");
    key
}

/// The length of a derived key, as HKDF asks for it.
#[derive(Debug)]
struct KeyLength;

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        SEED_BYTES
    }
}
