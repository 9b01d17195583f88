//! landlock: the files, ports and processes that a child reaches, as far as the kernel has it.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};

use super::{ConfineError, Profile};

/// The newest version whose restrictions are asked for; an older kernel applies those it has.
const NEWEST: ABI = ABI::V6;

/// Programs and libraries, to be read.
const PROGRAMS: [&str; 7] = [
    "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr",
];

/// git and ssh, and the programs that git's own shell scripts (`git submodule`) call; the loaders
/// of all.
const EXECUTED: [&str; 22] = [
    "/bin/sh",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib64/ld-linux-x86-64.so.2",
    "/usr/bin/basename",
    "/usr/bin/cat",
    "/usr/bin/dirname",
    "/usr/bin/env",
    "/usr/bin/expr",
    "/usr/bin/git",
    "/usr/bin/sed",
    "/usr/bin/ssh",
    "/usr/bin/tr",
    "/usr/bin/uname",
    "/usr/bin/wc",
    "/usr/lib/git-core",
    "/usr/libexec/git-core",
    "/usr/local/bin/git",
    "/usr/local/bin/ssh",
    "/usr/local/lib/git-core",
    "/usr/local/libexec/git-core",
];

/// Files that name lookups, TLS, ssh and git read. Not all of `/etc`: user 0 owns secrets there,
/// among them private keys below `/etc/ssl`, `/etc/pki` and `/etc/ssh`.
const SETTINGS: [&str; 28] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssh/ssh_config",
    "/etc/ssh/ssh_config.d",
    "/etc/ssh/ssh_known_hosts",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/run/resolvconf",
    "/run/systemd/resolve",
];

/// Devices without a memory.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

/// Restricts this thread and those that it starts.
pub(super) fn restrict(profile: &Profile) -> Result<(), ConfineError> {
    let ruleset = match profile {
        Profile::Compute => nothing(),
        Profile::Fetch { staging } => staging_alone(staging),
    };
    ruleset.map_err(ConfineError::Landlock)
}

fn nothing() -> Result<(), RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .restrict_self()
        .map(drop)
}

/// One directory to write in, the host's programs and settings to read, connections to others.
fn staging_alone(staging: &Path) -> Result<(), RulesetError> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let refused = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::Execute;
    let write = AccessFs::from_all(NEWEST) & !refused;
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        // Places that this host does not have are passed over.
        .add_rules(path_beneath_rules(PROGRAMS, read))?
        .add_rules(path_beneath_rules(EXECUTED, read | AccessFs::Execute))?
        .add_rules(path_beneath_rules(SETTINGS, read))?
        .add_rules(path_beneath_rules(
            DEVICES,
            AccessFs::ReadFile | AccessFs::WriteFile,
        ))?
        .add_rules(path_beneath_rules([staging], write))?
        .restrict_self()
        .map(drop)
}
