//! Host volumes of a group, where its tasks mount them.

use std::path::Path;

use isolation::{Access, Bind, Propagation};
use noded_core::effect::StartTask;
use protocol_model::VolumeMount;
use rustix::fs::{AtFlags, CWD, StatxFlags};

use super::Executor;
use crate::drivers::StartFailed;

impl Executor {
    /// The volumes that a task mounts, in the order of its job.
    pub(super) fn binds(&self, start: &StartTask) -> Result<Vec<Bind>, StartFailed> {
        let mounts = start.volume_mounts.iter();
        mounts.map(|mount| self.bind(start, mount)).collect()
    }

    fn bind(&self, start: &StartTask, mount: &VolumeMount) -> Result<Bind, StartFailed> {
        let name = mount.volume.as_deref().unwrap_or_default();
        let failed = |what: &str| StartFailed::hopeless(format!("volume {name:?}: {what}"));
        let group = start.spec.group();
        let request = group
            .volumes
            .get(name)
            .ok_or_else(|| failed("the group has no such volume"))?;
        if !matches!(request.volume_type.as_str(), "" | "host") {
            return Err(failed("only host volumes are supported"));
        }
        let source = request.source_of(start.spec.alloc().index());
        let config = self.config.now();
        let volume = config
            .host_volumes
            .get(&source)
            .ok_or_else(|| failed(&format!("this node has no such host volume as {source:?}")))?;
        let mode = mount.propagation_mode.as_deref().unwrap_or_default();
        let propagation = propagation(mode).ok_or_else(|| {
            failed(&format!(
                "propagation_mode {mode:?} is none of private, host-to-task, bidirectional"
            ))
        })?;
        let table = || std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if propagation != Propagation::Private
            && let Err(problem) = check_connected(&volume.path, propagation, &table())
        {
            return Err(failed(&format!("propagation_mode {mode:?}: {problem}")));
        }
        let is_read_only =
            volume.read_only || request.read_only || mount.read_only.unwrap_or(false);
        Ok(Bind {
            source: volume.path.clone(),
            // As Nomad: a relative one counts from the task's root.
            target: Path::new("/").join(mount.destination.as_deref().unwrap_or_default()),
            access: match is_read_only {
                true => Access::ReadOnly,
                false => Access::ReadWrite,
            },
            propagation,
        })
    }
}

fn propagation(mode: &str) -> Option<Propagation> {
    match mode {
        "" | "private" => Some(Propagation::Private),
        "host-to-task" => Some(Propagation::HostToTask),
        "bidirectional" => Some(Propagation::Bidirectional),
        _ => None,
    }
}

/// A private mount of the host sends no mounts to anybody: the job would wait for them in vain.
fn check_connected(path: &Path, propagation: Propagation, table: &str) -> Result<(), String> {
    let id = mount_id(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let Some(mount) = Mount::find(table, id) else {
        return Err(format!("{}: its mount is not in the table", path.display()));
    };
    let is_enough = match propagation {
        Propagation::Private => true,
        Propagation::HostToTask => mount.is_shared || mount.is_receiving,
        Propagation::Bidirectional => mount.is_shared,
    };
    if is_enough {
        return Ok(());
    }
    let (path, point) = (path.display(), &mount.point);
    Err(format!(
        "{path} is on the mount {point} of this node, which is not shared; run `mount --make-shared \
         {point}` there"
    ))
}

fn mount_id(path: &Path) -> std::io::Result<u64> {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?;
    Ok(found.stx_mnt_id)
}

/// A line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: String,
    is_shared: bool,
    is_receiving: bool,
}

impl Mount {
    fn find(table: &str, id: u64) -> Option<Self> {
        table.lines().find_map(|line| {
            let mut fields = line.split(' ');
            if fields.next()?.parse::<u64>().ok()? != id {
                return None;
            }
            let point = fields.nth(3)?.to_owned();
            // Optional fields stand between the mount's options and a hyphen.
            let optional: Vec<&str> = fields.skip(1).take_while(|field| *field != "-").collect();
            let has = |kind: &str| optional.iter().any(|field| field.starts_with(kind));
            Some(Self {
                point,
                is_shared: has("shared:"),
                is_receiving: has("master:"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
        22 21 8:2 / /srv rw shared:5 - ext4 /dev/shared: rw\n\
        23 21 8:3 / /mnt rw,master:9 master:7 propagate_from:2 - ext4 /dev/sdc rw\n";

    #[test]
    fn mounts_are_found_with_their_optional_fields() {
        let of = |id| {
            let mount = Mount::find(TABLE, id)?;
            Some((mount.point, mount.is_shared, mount.is_receiving))
        };
        assert_eq!(of(21), Some(("/".to_owned(), false, false)));
        assert_eq!(of(22), Some(("/srv".to_owned(), true, false)));
        assert_eq!(of(23), Some(("/mnt".to_owned(), false, true)));
        assert_eq!(of(24), None);
    }

    #[test]
    fn a_volume_on_a_private_mount_is_refused_where_mounts_should_travel() {
        let directory = tempfile::tempdir().unwrap();
        let id = mount_id(directory.path()).unwrap();
        let check = |fields: &str, propagation| {
            let table = format!("{id} 1 8:1 / /point rw {fields}- ext4 none rw\n");
            check_connected(directory.path(), propagation, &table)
        };
        use Propagation::{Bidirectional, HostToTask};
        for (fields, host_to_task, bidirectional) in [
            ("", false, false),
            ("shared:1 ", true, true),
            ("master:1 ", true, false),
            ("shared:2 master:1 ", true, true),
        ] {
            assert_eq!(check(fields, HostToTask).is_ok(), host_to_task, "{fields}");
            assert_eq!(
                check(fields, Bidirectional).is_ok(),
                bidirectional,
                "{fields}"
            );
        }
        let problem = check("", HostToTask).unwrap_err();
        assert!(
            problem.contains("`mount --make-shared /point`"),
            "{problem}"
        );
    }
}
