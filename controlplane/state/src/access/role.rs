//! Roles: named sets of policies.

use serde::{Deserialize, Serialize};

use super::{ACL_DESCRIPTION_LEN_MAX, ACL_LINKS_MAX, is_acl_name};

/// The most roles that a cluster keeps.
pub const ACL_ROLES_MAX: usize = 10_000;

/// A role.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AclRole {
    /// Its id, as a UUID text.
    pub id: String,
    /// Its name: no other role has it.
    pub name: String,
    /// Its purpose, for people.
    pub description: String,
    /// The names of its policies. One may have been deleted since.
    pub policies: Vec<String>,
    /// The log index of its creation.
    pub create_index: u64,
    /// The log index of its last change.
    pub modify_index: u64,
}

/// Why a role is not written. The texts are Nomad's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum RoleFault {
    /// It has no id.
    #[error("role has no id")]
    NoId,
    /// Its name is none.
    #[error("invalid name '{0}'")]
    Name(String),
    /// Its description is too long.
    #[error("description longer than {ACL_DESCRIPTION_LEN_MAX}")]
    DescriptionTooLong,
    /// It has no policy.
    #[error("at least one policy should be specified")]
    NoPolicy,
    /// It links to more than [`ACL_LINKS_MAX`] policies.
    #[error("role links to {found} policies: at most {ACL_LINKS_MAX} are allowed")]
    TooManyLinks {
        /// Their number.
        found: usize,
    },
}

impl AclRole {
    /// The first fault of a role that is to be written.
    pub fn fault(&self) -> Option<RoleFault> {
        if self.id.is_empty() {
            return Some(RoleFault::NoId);
        }
        if !is_acl_name(&self.name) {
            return Some(RoleFault::Name(self.name.clone()));
        }
        if self.description.len() > ACL_DESCRIPTION_LEN_MAX {
            return Some(RoleFault::DescriptionTooLong);
        }
        match self.policies.len() {
            0 => Some(RoleFault::NoPolicy),
            found if found > ACL_LINKS_MAX => Some(RoleFault::TooManyLinks { found }),
            _ => None,
        }
    }
}
