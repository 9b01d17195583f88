//! From a user name in a job file to the numbers that the kernel takes.

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

/// Looks up a user and all its groups in the host's user database. Asks the name service
/// switch, which may block: call it from noded, never from keeper.
///
/// # Errors
/// The user is unknown or the database could not be asked.
pub fn lookup_identity(name: &str) -> Result<Identity, IdentityError> {
    let lookup = |source| IdentityError::Lookup {
        name: name.to_owned(),
        source,
    };
    let c_name = std::ffi::CString::new(name).map_err(|_| IdentityError::Invalid {
        name: name.to_owned(),
    })?;
    let user = nix::unistd::User::from_name(name)
        .map_err(lookup)?
        .ok_or_else(|| IdentityError::Unknown {
            name: name.to_owned(),
        })?;
    let groups = nix::unistd::getgrouplist(&c_name, user.gid).map_err(lookup)?;
    Ok(Identity::User {
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
    })
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
}
