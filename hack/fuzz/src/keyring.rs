//! Files of KEKs, and sealed values as callers send them back.

use controlplane_keyring::{Kek, sealed_from_bytes, sealed_to_bytes};

use crate::Verdict;

/// A KEK file.
pub fn kek_file(data: &[u8]) -> Verdict {
    match Kek::from_text(data) {
        Ok(kek) => {
            assert_eq!(
                kek.to_text().as_bytes(),
                data,
                "there is one text for a KEK"
            );
            Verdict::Understood
        }
        Err(error) => Verdict::refused(&error),
    }
}

/// A sealed value.
pub fn sealed_value(data: &[u8]) -> Verdict {
    match sealed_from_bytes(data) {
        Ok(sealed) => {
            assert_eq!(sealed_to_bytes(&sealed), data);
            Verdict::Understood
        }
        Err(error) => Verdict::refused(&error),
    }
}
