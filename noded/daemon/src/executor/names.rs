//! Files by which a task with a root of its own finds others by their names: made in the
//! allocation's directory, bound over those of the host.

use std::path::{Path, PathBuf};

use isolation::{Access, Bind, Propagation};
use noded_core::effect::StartTask;
use protocol_model::{DnsConfig, NetworkMode};

use super::Executor;
use super::start::mode;
use crate::alloc_dir::FileAttributes;
use crate::drivers::StartFailed;
use crate::networks::names;

const HOSTS: &str = "/etc/hosts";
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The servers themselves, where `/etc/resolv.conf` names only a stub (systemd-resolved(8)).
const RESOLV_CONF_BEHIND_STUB: &str = "/run/systemd/resolve/resolv.conf";
/// Below the allocation's directory; no task reaches it by another way.
const DIRECTORY: &str = ".net";

impl Executor {
    /// The binds over the host's files. Blocks.
    pub(super) fn name_files(&self, start: &StartTask) -> Result<Vec<Bind>, StartFailed> {
        let mut binds = Vec::new();
        let network = &start.network;
        let host_name = match network.hostname.as_str() {
            "" => rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            name => name.to_owned(),
        };
        if let Some(hosts) = names::hosts(network, &host_name) {
            binds.push(self.name_file(start, "hosts", HOSTS, &hosts)?);
        }
        let is_routed = mode(start) == NetworkMode::Bridge;
        if let Some(text) = resolv_conf(network.dns.as_ref(), is_routed) {
            binds.push(self.name_file(start, "resolv.conf", RESOLV_CONF, &text)?);
        }
        Ok(binds)
    }

    fn name_file(
        &self,
        start: &StartTask,
        name: &str,
        target: &str,
        text: &str,
    ) -> Result<Bind, StartFailed> {
        let alloc = start.run.alloc;
        let path = self.allocs.path_of(alloc).join(DIRECTORY).join(name);
        let attributes = FileAttributes {
            mode: 0o644,
            owner: None,
        };
        self.allocs
            .write_file(alloc, &path, text.as_bytes(), attributes)
            .map_err(|error| StartFailed::possible(&error))?;
        Ok(Bind {
            source: path,
            target: place_of(target),
            access: Access::ReadWrite,
            propagation: Propagation::Private,
        })
    }
}

/// Where a file of the host is once its links are followed: nothing is bound onto a link.
fn place_of(path: &str) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path))
}

/// The text for a task; `None` where the host's own file is right as it is.
fn resolv_conf(dns: Option<&DnsConfig>, is_routed: bool) -> Option<String> {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let host = read(RESOLV_CONF);
    let behind = read(RESOLV_CONF_BEHIND_STUB);
    let usable = match is_routed {
        true => names::reachable(&[&host, &behind]).unwrap_or(&host),
        false => &host,
    };
    match dns {
        Some(dns) => Some(names::resolv_conf(dns, usable)),
        None if usable != host => Some(usable.to_owned()),
        None => None,
    }
}
