//! Whom a task runs as, and whom this node refuses.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use isolation::{Identity, lookup_identity};
use noded_core::driver::TaskRoot;
use protocol_error_chain::chain;

use crate::config::{Config, DriverSettings};

/// The user of a server's unit (docs/install.md).
const SERVER_USER: &str = "drover";

/// The identity of a task of `driver` that its job wants to run as `user` (empty: the default).
/// Asks the user database, which may block.
pub(super) fn identity_of(config: &Config, driver: &str, user: &str) -> Result<Identity, String> {
    let settings = config
        .drivers
        .find(driver)
        .ok_or_else(|| format!("driver {driver:?} is not available on this node"))?;
    let name = match user {
        "" => settings.driver.default_user().unwrap_or_default(),
        user => user,
    };
    let identity = if name.is_empty() {
        Identity::Keeper
    } else {
        lookup_identity(name).map_err(|error| {
            let reason = chain(&error);
            format!("user: {reason}; make it on this node, or name another")
        })?
    };
    if settings.root() == TaskRoot::OwnRoot {
        may_have_a_sandbox(driver, name, &identity, config)?;
    }
    is_not_denied(driver, name, &identity, settings)?;
    Ok(identity)
}

/// Tasks with a root of their own see files of the host. They never run as root or as the owner of
/// the daemons' files, and in no group that the host's database does not give the user: some files
/// are a group's alone (`/etc/shadow`).
fn may_have_a_sandbox(
    driver: &str,
    name: &str,
    identity: &Identity,
    config: &Config,
) -> Result<(), String> {
    let Identity::User { uid, gid, .. } = identity else {
        return Ok(());
    };
    if *uid == 0 {
        return Err(format!("driver {driver} does not run tasks as {name:?}"));
    }
    if owners(config).contains(uid) {
        return Err(format!(
            "driver {driver} does not run tasks as {name:?}: user {uid} owns files of Drover's own \
             daemons on this node, keys among them; name another user"
        ));
    }
    if !name.contains(':') {
        return Ok(());
    }
    let of_host = lookup_identity(&uid.to_string());
    let is_own = matches!(&of_host, Ok(Identity::User { groups, .. }) if groups.contains(gid));
    if is_own {
        return Ok(());
    }
    Err(format!(
        "driver {driver} does not run tasks as {name:?}: this node's user database does not have \
         user {uid} in group {gid}; name a user of this node, or add it to the group"
    ))
}

/// The user of a server's unit, and everybody who owns a file of the daemons' configuration.
fn owners(config: &Config) -> BTreeSet<u32> {
    let of_server = match lookup_identity(SERVER_USER) {
        Ok(Identity::User { uid, .. }) => Some(uid),
        Ok(Identity::Keeper) | Err(_) => None,
    };
    let own_paths = config.own_paths();
    let of_files = own_paths.iter().filter_map(|path| path.metadata().ok());
    of_files.map(|found| found.uid()).chain(of_server).collect()
}

/// The operator's lists, which hold numbers: `denied_host_uids`, `denied_host_gids`.
fn is_not_denied(
    driver: &str,
    name: &str,
    identity: &Identity,
    settings: &DriverSettings,
) -> Result<(), String> {
    let root = [0];
    let (uid, gid, groups) = match identity {
        Identity::Keeper => (0, 0, root.as_slice()),
        Identity::User { uid, gid, groups } => (*uid, *gid, groups.as_slice()),
    };
    let shown = if name.is_empty() { "root" } else { name };
    let refused = |kind: &str, id: u32, key: &str| {
        Err(format!(
            "driver {driver} does not run tasks as {shown:?}: {kind} {id} is in this node's \
             driver {driver:?} {{ {key} }}; name another user"
        ))
    };
    if settings.denied_uids.contains(uid) {
        return refused("user", uid, "denied_host_uids");
    }
    let mut all = groups.iter().chain([&gid]);
    match all.find(|gid| settings.denied_gids.contains(**gid)) {
        Some(gid) => refused("group", *gid, "denied_host_gids"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::ConfigFile;

    fn config(directory: &Path, more: &str) -> Config {
        let key = directory.join("key.pem");
        std::fs::write(&key, "").expect("a key");
        let text = format!(
            "data_dir = \"/d\"\nservers = [\"a\"]\ntls {{\n ca_file = \"/a\"\n cert_file = \"/b\"\n \
             key_file = {key:?}\n}}\n{more}"
        );
        let file = ConfigFile::parse(&text).expect("a file");
        Config::from_file(file).expect("a configuration")
    }

    fn nobody() -> (u32, u32) {
        match lookup_identity("nobody") {
            Ok(Identity::User { uid, gid, .. }) => (uid, gid),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn exec_runs_nothing_in_a_group_that_the_host_does_not_give_the_user() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = config(directory.path(), "");
        let (uid, own) = nobody();
        for (user, may) in [
            (format!("{uid}:{own}"), true),
            (format!("{uid}:0"), false),
            (format!("{uid}:42"), false),
            ("54321:54321".to_owned(), false),
            ("0:0".to_owned(), false),
        ] {
            let identity = identity_of(&config, "exec", &user);
            assert_eq!(identity.is_ok(), may, "{user}: {identity:?}");
        }
        let of_raw = identity_of(&config, "raw_exec", "54321:54321").expect("as it says");
        assert!(matches!(of_raw, Identity::User { uid: 54321, .. }));
    }

    #[test]
    fn denied_users_and_groups_are_refused_with_the_key() {
        let directory = tempfile::tempdir().expect("a directory");
        let (uid, gid) = nobody();
        for (driver, key, ids, user) in [
            ("exec", "denied_host_uids", format!("1-2,{uid}"), ""),
            ("exec", "denied_host_gids", gid.to_string(), "nobody"),
            ("raw_exec", "denied_host_uids", uid.to_string(), "nobody"),
            ("raw_exec", "denied_host_gids", gid.to_string(), "nobody"),
            ("raw_exec", "denied_host_uids", "0".to_owned(), ""),
            ("raw_exec", "denied_host_gids", "0-9".to_owned(), "root"),
        ] {
            let more = format!("driver {driver:?} {{\n {key} = {ids:?}\n}}");
            let config = config(directory.path(), &more);
            let refused = identity_of(&config, driver, user).expect_err(key);
            assert!(refused.contains(key), "{refused}");
            assert!(refused.contains(driver), "{refused}");
        }
        let more = "driver \"exec\" {\n denied_host_uids = \"0-10\"\n}";
        let others = identity_of(&config(directory.path(), more), "exec", "");
        assert!(others.is_ok(), "{others:?}");
    }

    #[test]
    fn exec_does_not_run_as_the_owner_of_the_daemons_files() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let config = config(directory.path(), "");
        identity_of(&config, "exec", "daemon").expect("an ordinary user");
        let daemon = match lookup_identity("daemon") {
            Ok(Identity::User { uid, .. }) => uid,
            other => panic!("{other:?}"),
        };
        let key = directory.path().join("key.pem");
        std::os::unix::fs::chown(&key, Some(daemon), None).expect("given away");
        for user in ["daemon".to_owned(), daemon.to_string()] {
            let refused = identity_of(&config, "exec", &user).expect_err("its owner");
            assert!(refused.contains("owns files of Drover's own"), "{refused}");
        }
        identity_of(&config, "exec", "").expect("nobody owns none of them");
    }
}
