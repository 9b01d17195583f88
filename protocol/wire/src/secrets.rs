//! Messages that carry keys: their `Debug` shows none, so that no log line and no panic does.

use std::fmt;

use crate::v1;

impl fmt::Debug for v1::KekReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keks, refused } = self;
        f.debug_struct("KekReply")
            .field("keks", &keks.len())
            .field("refused", refused)
            .finish()
    }
}

impl fmt::Debug for v1::KekStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server_id,
            term,
            kek: _,
        } = self;
        f.debug_struct("KekStore")
            .field("server_id", server_id)
            .field("term", term)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_shown() {
        let kek = bytes::Bytes::from(vec![b'k'; 32]);
        let reply = v1::KekReply {
            keks: vec![kek.clone()],
            refused: String::new(),
        };
        let store = v1::KekStore {
            server_id: 1,
            term: 2,
            kek,
        };
        let shown = format!("{reply:?} {store:?}");
        assert!(!shown.contains("kkk") && !shown.contains("107"), "{shown}");
    }
}
