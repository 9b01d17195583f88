//! From a user name in a job file to the numbers that the kernel takes.

use std::ffi::CString;

use nix::unistd::{Uid, User};

use crate::spec::Identity;

/// Why a user could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The host's user database has no such user.
    #[error("no user {name:?} on this host")]
    Unknown {
        /// The name as the job gives it.
        name: String,
    },
    /// The user database could not be asked.
    #[error("cannot look up user {name:?}")]
    Lookup {
        /// The name as the job gives it.
        name: String,
        /// What the C library said.
        #[source]
        source: nix::Error,
    },
    /// A name with a NUL byte.
    #[error("user name {name:?} is not a valid string")]
    Invalid {
        /// The name as the job gives it.
        name: String,
    },
}

/// Looks up a user and all its groups in the host's user database: by name, by number, or, where
/// the database need not know it, by `USER:GROUP` in numbers. Asks the name service switch, which
/// may block: call it from noded, never from keeper.
///
/// # Errors
/// The user is unknown or the database could not be asked.
pub fn lookup_identity(name: &str) -> Result<Identity, IdentityError> {
    let lookup = |source| IdentityError::Lookup {
        name: name.to_owned(),
        source,
    };
    if let Some((uid, gid)) = numbers(name) {
        return Ok(Identity::User {
            uid,
            gid,
            groups: vec![gid],
        });
    }
    if name.contains('\0') {
        return Err(IdentityError::Invalid {
            name: name.to_owned(),
        });
    }
    let by_number = || number(name).map(Uid::from_raw).map(User::from_uid);
    let user = match User::from_name(name).map_err(lookup)? {
        Some(user) => Some(user),
        None => by_number().transpose().map_err(lookup)?.flatten(),
    };
    let user = user.ok_or_else(|| IdentityError::Unknown {
        name: name.to_owned(),
    })?;
    let c_name = CString::new(user.name).map_err(|_| IdentityError::Invalid {
        name: name.to_owned(),
    })?;
    let groups = nix::unistd::getgrouplist(&c_name, user.gid).map_err(lookup)?;
    Ok(Identity::User {
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
    })
}

/// `1000:1000`.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let (user, group) = text.split_once(':')?;
    Some((number(user)?, number(group)?))
}

/// Digits only; the largest number means "nobody at all" to the kernel.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|number| digits && *number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_and_a_stranger_is_named() {
        assert!(matches!(
            lookup_identity("root"),
            Ok(Identity::User { uid: 0, gid: 0, .. })
        ));
        assert!(matches!(
            lookup_identity("no-such-user-here"),
            Err(IdentityError::Unknown { name }) if name == "no-such-user-here"
        ));
        assert!(matches!(
            lookup_identity("a\0b"),
            Err(IdentityError::Invalid { .. })
        ));
    }

    #[test]
    fn users_have_numbers_and_a_stranger_s_need_a_group() {
        let of = |text: &str| lookup_identity(text).ok();
        let known = User::from_name("daemon").expect("asked").expect("there");
        assert_eq!(of(&known.uid.to_string()), of("daemon"));
        let stranger = Identity::User {
            uid: 4_000_000,
            gid: 4_000_001,
            groups: vec![4_000_001],
        };
        assert_eq!(of("4000000:4000001"), Some(stranger));
        for text in [
            "4000000",
            "-1:1",
            "+1:1",
            "1:",
            ":1",
            "1:2:3",
            "4294967295:1",
            "1:4294967295",
            "",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
