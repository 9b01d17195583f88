//! The raw system calls of this crate, one per function. Here because neither rustix nor nix has
//! them in a safe form. None of them allocates, so a child may call all of them after clone.

mod clone3;
mod exec;
mod fork;
mod mount;
mod process;
mod signals;

pub(crate) use self::clone3::{Born, clone3};
pub(crate) use self::exec::{ExecVectors, execve, execve_descriptor};
pub(crate) use self::fork::{Forked, fork};
pub(crate) use self::mount::{mount_setattr, receive_only};
pub(crate) use self::process::{
    close_all_but, close_on_exec_from, exit_now, install_filter, join_new_session_keyring,
    landlock_abi, normal_scheduler, seccomp_action_available, set_groups, set_identity,
    unshare_cgroup_namespace,
};
pub(crate) use self::signals::{empty_mask, reset_actions};

use rustix::io::Errno;

/// The result of a raw call: `-1` means that errno tells why.
pub(crate) fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result == -1 {
        Err(std::io::Error::last_os_error()
            .raw_os_error()
            .map_or(Errno::IO, Errno::from_raw_os_error))
    } else {
        Ok(result)
    }
}
