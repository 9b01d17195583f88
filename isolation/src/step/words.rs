//! Steps in words, for people who read a plan or why a start failed.

use std::fmt;

use super::{MountFlags, NamespaceSource, Step};
use crate::seccomp::Filter;
use crate::spec::{Access, Namespace, Propagation};
use crate::step::Missing;

/// One line, for people who read a plan.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResetSignalActions => f.write_str("signals: every action to its default"),
            Self::NotDumpable => f.write_str("not dumpable until exec"),
            Self::NewSession => f.write_str("session: new"),
            Self::NewSessionKeyring => f.write_str("session keyring: new, empty"),
            Self::NormalScheduler => f.write_str("scheduler: normal"),
            Self::Nice(value) => write!(f, "nice: {value}"),
            Self::OomScoreAdjust(value) => write!(f, "oom_score_adj: {value}"),
            Self::StandardStreams => f.write_str("descriptors 0, 1, 2: input, output, error"),
            Self::ControllingTerminal => f.write_str("controlling terminal: descriptor 0"),
            Self::ResourceLimit {
                resource,
                soft,
                hard,
            } => {
                write!(f, "limit: {resource:?} soft {}", Limit(*soft))?;
                hard.map_or(Ok(()), |hard| write!(f, " hard {hard}"))
            }
            Self::Umask(mask) => write!(f, "umask: {mask:04o}"),
            Self::JoinNamespaces { kinds, from } => {
                write!(f, "join namespaces: {} of {from}", Kinds(kinds))
            }
            Self::NewCgroupNamespace => f.write_str("cgroup namespace: new"),
            Self::CloseOnExecFrom(first) => write!(f, "close on exec: descriptors from {first}"),
            Self::EmptySignalMask => f.write_str("signals: none blocked"),
            Self::Reaper => {
                f.write_str("PID 1: a reaper; its child goes on in a session of its own")
            }
            Self::Processors(numbers) => write!(f, "processors: {numbers:?}"),
            Self::HostName(name) => write!(f, "host name: {}", name.to_string_lossy()),
            Self::WorkingDirectory(path) => {
                write!(f, "working directory: {}", path.to_string_lossy())
            }
            Self::BoundingSet(keep) => write!(f, "bounding set: {keep}"),
            Self::SwitchIdentity { uid, gid, groups } => {
                write!(f, "identity: uid {uid}, gid {gid}, groups {groups:?}")
            }
            Self::Capabilities(keep) => write!(f, "capabilities: {keep}"),
            Self::NoNewPrivileges => f.write_str("no new privileges"),
            Self::Seccomp(filters) => {
                let instructions: usize = filters.iter().map(Filter::len).sum();
                write!(
                    f,
                    "seccomp: {} filters, {instructions} instructions",
                    filters.len()
                )
            }
            Self::PrivateMounts
            | Self::OpenRoot { .. }
            | Self::Bind { .. }
            | Self::Mount { .. }
            | Self::Directory { .. }
            | Self::Device { .. }
            | Self::Symlink { .. }
            | Self::Mask { .. }
            | Self::ReadOnly { .. }
            | Self::TakeTree { .. }
            | Self::PlaceTree { .. }
            | Self::PivotRoot => self.fmt_mount(f),
        }
    }
}

impl Step {
    /// The half of `Display` that is about files.
    fn fmt_mount(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrivateMounts => f.write_str("mounts: private from here"),
            Self::OpenRoot { source } => write!(f, "root: {}", source.to_string_lossy()),
            Self::Mount {
                file_system,
                target,
                options,
                flags,
            } => {
                let name = file_system.kernel_name().to_string_lossy();
                write!(f, "mount: {name} at /{}{flags}", target.to_string_lossy())?;
                options.iter().try_for_each(|(key, value)| {
                    write!(f, ", {}={}", key.to_string_lossy(), value.to_string_lossy())
                })
            }
            Self::Directory { target, mode } => {
                write!(f, "directory: /{} {mode:04o}", target.to_string_lossy())
            }
            Self::Device {
                target,
                major,
                minor,
                mode,
            } => {
                write!(
                    f,
                    "device: /{} {major}:{minor} {mode:04o}",
                    target.to_string_lossy()
                )
            }
            Self::Symlink { target, content } => {
                write!(
                    f,
                    "symlink: /{} -> {}",
                    target.to_string_lossy(),
                    content.to_string_lossy()
                )
            }
            Self::Mask { target } => write!(f, "mask: /{}, if there", target.to_string_lossy()),
            Self::ReadOnly { target } => {
                write!(f, "read-only: /{}, if there", target.to_string_lossy())
            }
            Self::Bind { .. } | Self::TakeTree { .. } | Self::PlaceTree { .. } => self.fmt_bind(f),
            Self::PivotRoot => f.write_str("pivot: root becomes /, host detached"),
            other => write!(f, "{other:?}"),
        }
    }

    /// The part of `Display` that is about files of the host.
    fn fmt_bind(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind {
                source,
                target,
                access,
                missing,
            } => {
                let (source, target) = (source.to_string_lossy(), target.to_string_lossy());
                let access = access_name(*access);
                let missing = match missing {
                    Missing::Fail => "",
                    Missing::Skip => ", if there",
                };
                write!(f, "bind: {source} at /{target}, {access}{missing}")
            }
            Self::TakeTree {
                source,
                propagation,
            } => {
                let propagation = match propagation {
                    Propagation::Private => "private",
                    Propagation::HostToTask => "later mounts of the host are seen",
                    Propagation::Bidirectional => "later mounts travel both ways",
                };
                write!(f, "take: {}, {propagation}", source.to_string_lossy())
            }
            Self::PlaceTree {
                tree,
                target,
                access,
            } => {
                let (target, access) = (target.to_string_lossy(), access_name(*access));
                write!(f, "place: taken {tree} at /{target}, {access}")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

const fn access_name(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "read-only",
        Access::ReadWrite => "read-write",
    }
}

impl fmt::Display for NamespaceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "slot {slot:?}"),
            Self::Path(path) => write!(f, "{}", path.to_string_lossy()),
        }
    }
}

impl fmt::Display for MountFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            read_only,
            no_set_uid,
            no_devices,
            no_exec,
        } = *self;
        for (set, name) in [
            (read_only, "read-only"),
            (no_set_uid, "nosuid"),
            (no_devices, "nodev"),
            (no_exec, "noexec"),
        ] {
            if set {
                write!(f, ", {name}")?;
            }
        }
        Ok(())
    }
}

/// A limit that may be infinite.
struct Limit(Option<u64>);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, "{value}"),
            None => f.write_str("infinite"),
        }
    }
}

/// Namespace kinds as a list of words.
struct Kinds<'a>(&'a [Namespace]);

impl fmt::Display for Kinds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (offset, kind) in self.0.iter().enumerate() {
            let separator = if offset == 0 { "" } else { "+" };
            write!(f, "{separator}{}", format!("{kind:?}").to_ascii_lowercase())?;
        }
        Ok(())
    }
}
