//! Files of identities on a node: the tokens that it holds, and the keys that verify them.

use noded_core::Moment;
use noded_core::identities::kept::{KeptIdentities, KeptIdentity};
use noded_core::identities::{Identities, IdentityKey};
use noded_daemon::keys::PublicKeys;
use protocol_model::AllocId;

use crate::Verdict;

/// The kept tokens of an allocation, and what the next daemon makes of them.
pub fn kept_identities(data: &[u8]) -> Verdict {
    let kept = match KeptIdentities::decode(data) {
        Ok(kept) => kept,
        Err(error) => return Verdict::refused(&error),
    };
    let written = kept.encode().expect("read bytes can be written");
    let again = KeptIdentities::decode(&written).expect("written bytes are read");
    assert_eq!(again, kept);
    let mut machine = Identities::new(1);
    let now = Moment::default();
    for found in kept.identities {
        let KeptIdentity {
            task,
            identity,
            token,
            undelivered: _,
        } = found;
        let key = IdentityKey::new(AllocId::from_u128(1), task, identity);
        machine.restore(key.clone(), token.clone());
        assert_eq!(machine.token(&key), Some(&token));
        machine.want(key, token.root_key, now);
    }
    machine.on_session(true, now);
    machine.on_timeout(now);
    while machine.poll_step().is_some() {}
    machine.poll_timeout();
    Verdict::Understood
}

/// `keys.json`.
pub fn public_keys(data: &[u8]) -> Verdict {
    match PublicKeys::from_file(data) {
        Ok(keys) => {
            let again = PublicKeys::from_file(&keys.to_file());
            assert_eq!(again, Ok(keys));
            Verdict::Understood
        }
        Err(problem) => Verdict::refused_with(problem),
    }
}
