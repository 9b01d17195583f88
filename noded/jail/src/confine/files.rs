//! landlock: the files, ports and processes that a child reaches, as far as the kernel has it.

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, Scope};

use super::{ConfineError, Profile};

/// The newest version whose restrictions are asked for; an older kernel applies those it has.
const NEWEST: ABI = ABI::V6;

/// Restricts this thread and those that it starts.
pub(super) fn restrict(profile: &Profile) -> Result<(), ConfineError> {
    let ruleset = match profile {
        Profile::Compute => nothing(),
    };
    ruleset.map_err(ConfineError::Landlock)
}

fn nothing() -> Result<(), landlock::RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .restrict_self()
        .map(drop)
}
