//! The rivals: `crun` and `runc` of Debian, which start the same program from an OCI bundle.
//!
//! They are fetched with `apt-get download` and unpacked with `dpkg -x`; nothing is installed. The
//! bundle has the same namespaces, mounts, masks, identity and limit of open files as a task of
//! driver `exec`. It has no seccomp filter, which ours has, and no cgroup limits, which not every
//! host can give: both would make the rivals slower.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use isolation::cgroup::find_mount;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use super::floor::Birth;
use super::folder;
use super::sandbox::Sandbox;
use crate::Bench;
use crate::programs::Program;

/// Where runtimes look for cgroups.
const CGROUP_MOUNT: &str = "/sys/fs/cgroup";
/// The runtimes, and the library of crun that few hosts have.
const PACKAGES: [&str; 3] = ["crun", "runc", "libyajl2"];
/// A host without a network gives up at once.
const APT_OPTIONS: [&str; 4] = [
    "-o",
    "Acquire::http::Timeout=20",
    "-o",
    "Acquire::Retries=0",
];
/// Inside the bundle's root.
const PROGRAM: &str = "/local/program";
/// The runtimes need it to find their own helpers.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The unpacked runtimes.
#[derive(Debug)]
pub(super) struct Rivals {
    root: PathBuf,
}

/// One runtime with its bundle.
#[derive(Debug)]
pub(super) struct Rival {
    pub(super) name: &'static str,
    pub(super) version: String,
    program: PathBuf,
    libraries: PathBuf,
    bundle: PathBuf,
    state: PathBuf,
    cgroup: PathBuf,
    messages: PathBuf,
}

/// Fetches and unpacks the rivals below `target`, unless they are there.
///
/// # Errors
/// Debian's archive is not reached, or a tool is missing.
pub(super) fn fetch(bench: &Bench) -> anyhow::Result<Rivals> {
    let target = bench.scratch.parent().context("the scratch folder is /")?;
    let root = target.join("rivals");
    let rivals = Rivals { root };
    if rivals.program("crun").is_file() && rivals.program("runc").is_file() {
        return Ok(rivals);
    }
    let packages = rivals.root.join("packages");
    std::fs::create_dir_all(&packages)?;
    let mut download = Command::new("apt-get");
    download.args(APT_OPTIONS).arg("download").args(PACKAGES);
    succeed(download.current_dir(&packages)).context("fetch the rivals from Debian's archive")?;
    for entry in std::fs::read_dir(&packages)? {
        let path = entry?.path();
        if path.extension().is_some_and(|suffix| suffix == "deb") {
            succeed(Command::new("dpkg").arg("-x").arg(&path).arg(&rivals.root))?;
        }
    }
    Ok(rivals)
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("run {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    ensure!(
        output.status.success(),
        "{name} failed: {}: {last}",
        output.status
    );
    Ok(())
}

/// Moves this thread, and what it starts from now on, to mounts of its own. On a hybrid host cgroup
/// v2 is bound over the place where runtimes look for it, so that they see no hierarchy of version
/// 1 and change none.
///
/// # Errors
/// The kernel refuses.
pub(super) fn enter_own_mounts() -> anyhow::Result<()> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let v2 = find_mount()?.path;
    if v2 != Path::new(CGROUP_MOUNT) {
        mount(Some(&v2), CGROUP_MOUNT, none, MsFlags::MS_BIND, none)?;
    }
    Ok(())
}

impl Rivals {
    fn program(&self, name: &str) -> PathBuf {
        let folder = if name == "runc" {
            "usr/sbin"
        } else {
            "usr/bin"
        };
        self.root.join(folder).join(name)
    }

    /// Makes the bundle of one runtime.
    ///
    /// # Errors
    /// The runtime does not run, or a file cannot be written.
    pub(super) fn bundle(&self, bench: &Bench, name: &'static str) -> anyhow::Result<Rival> {
        let bundle = folder(bench, &format!("bundle-{name}"))?;
        for below in ["rootfs/local", "rootfs/alloc", "alloc"] {
            std::fs::create_dir_all(bundle.join(below))?;
        }
        Program::FirstByte.write(&bundle.join("rootfs/local/program"))?;
        let group = format!("drover-bench-{}-{name}", std::process::id());
        let config = config(&bundle, &group);
        std::fs::write(bundle.join("config.json"), serde_json::to_vec(&config)?)?;
        let mut rival = Rival {
            name,
            version: String::new(),
            program: self.program(name),
            libraries: self
                .root
                .join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH)),
            state: folder(bench, &format!("state-{name}"))?,
            cgroup: Path::new(CGROUP_MOUNT).join(group),
            messages: bench.scratch.join(format!("{name}.log")),
            bundle,
        };
        let output = rival.command().arg("--version").output()?;
        ensure!(
            output.status.success(),
            "{name} --version failed: {}",
            output.status
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text
            .split_whitespace()
            .skip_while(|word| *word != "version")
            .nth(1);
        rival.version = version.context("no version")?.to_owned();
        Ok(rival)
    }
}

impl Rival {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", PATH)
            .env("LD_LIBRARY_PATH", &self.libraries);
        command.stdin(Stdio::null());
        command
    }

    /// Runs the bundle once, to the end of the runtime, which removes the container.
    ///
    /// # Errors
    /// It fails: with its last words.
    pub(super) fn run(&self) -> anyhow::Result<Birth> {
        let messages = File::create(&self.messages)?;
        let mut command = self.command();
        command
            .arg("--root")
            .arg(&self.state)
            .args(["run", "--bundle"])
            .arg(&self.bundle);
        command.arg(format!("bench-{}", self.name));
        command.stdout(Stdio::piped()).stderr(messages);
        let begun = Instant::now();
        let mut child = command.spawn()?;
        let mut output = child.stdout.take().context("no pipe")?;
        let read = output.read(&mut [0])?;
        let first_byte = begun.elapsed();
        let status = child.wait()?;
        let end = begun.elapsed();
        let said = || std::fs::read_to_string(&self.messages).unwrap_or_default();
        ensure!(
            read == 1 && status.success(),
            "{} run failed: {status}: {}",
            self.name,
            said().lines().last().unwrap_or_default()
        );
        Ok(Birth {
            request: Duration::ZERO,
            first_byte,
            end,
        })
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // The runtime removes it; what remains after a failure is empty.
        let _ = std::fs::remove_dir(&self.cgroup);
    }
}

/// The OCI runtime configuration of a task of driver `exec`.
fn config(bundle: &Path, group: &str) -> Value {
    let rest = ["nosuid", "nodev", "noexec"];
    let mut mounts = vec![
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "noexec", "mode=755", "size=65536"]}),
        json!({"destination": "/dev/pts", "type": "devpts", "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]}),
        json!({"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
            "options": [rest[0], rest[1], rest[2], "mode=1777", "size=67108864"]}),
        json!({"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue",
            "options": rest}),
        json!({"destination": "/proc", "type": "proc", "source": "proc", "options": rest}),
        json!({"destination": "/sys", "type": "sysfs", "source": "sysfs",
            "options": [rest[0], rest[1], rest[2], "ro"]}),
        json!({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
            "options": [rest[0], rest[1], rest[2], "ro"]}),
        json!({"destination": "/alloc", "type": "bind", "source": bundle.join("alloc"),
            "options": ["bind", "rw"]}),
    ];
    let there = Sandbox::host_paths()
        .into_iter()
        .filter(|path| path.exists());
    mounts.extend(there.map(|path| {
        json!({"destination": path, "type": "bind", "source": path, "options": ["bind", "ro"]})
    }));
    let namespaces = ["pid", "mount", "ipc", "uts", "cgroup", "network"];
    let namespaces: Vec<Value> = namespaces
        .iter()
        .map(|kind| json!({"type": kind}))
        .collect();
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": {"uid": 65534, "gid": 65534},
            "args": [PROGRAM],
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/",
            "capabilities": {"bounding": BOUNDING},
            "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 1024}],
            "noNewPrivileges": true,
        },
        "root": {"path": "rootfs", "readonly": false},
        "hostname": "bench",
        "mounts": mounts,
        "linux": {
            "cgroupsPath": format!("/{group}"),
            "namespaces": namespaces,
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
        },
    })
}

/// The capabilities of a task of driver `exec`.
const BOUNDING: [&str; 13] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_MKNOD",
    "CAP_AUDIT_WRITE",
    "CAP_SETFCAP",
];
const MASKED: [&str; 10] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_bundle_has_the_mounts_and_masks_of_an_exec_task() {
        let scratch = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::make(scratch.path(), Program::FirstByte).unwrap();
        let plan = sandbox.plan().unwrap().to_string();
        let config = config(scratch.path(), "group");
        let destinations = config["mounts"].as_array().unwrap();
        let destinations: BTreeSet<&str> = destinations
            .iter()
            .map(|mount| mount["destination"].as_str().unwrap())
            .collect();
        for line in plan.lines().filter(|line| line.contains(" mount: ")) {
            let place = line
                .split(" at ")
                .nth(1)
                .unwrap()
                .split(',')
                .next()
                .unwrap();
            assert!(destinations.contains(place), "{line}");
        }
        let words = [(" mask: ", &MASKED[..]), (" read-only: ", &READ_ONLY[..])];
        for (word, listed) in words {
            let planned = plan.lines().filter_map(|line| line.split_once(word));
            let planned = planned.map(|(_, rest)| rest.split(',').next().unwrap());
            // The task's own private folder is no part of a bundle.
            let planned: Vec<&str> = planned.filter(|path| *path != "/private").collect();
            assert_eq!(planned, listed);
        }
    }
}
