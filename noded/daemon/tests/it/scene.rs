//! One node with directories, cgroups, keeper and pump of its own, all of which vanish with it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noded_core::BootId;
use noded_core::journal::JournalRecord;
use noded_daemon::journal::{Journal, Records};
use tempfile::TempDir;

use crate::fake_server::{FakeServer, PATIENCE};

const KEEPER: &str = "noded-keeper";

/// Whether this host can run a node; says what is missing.
pub(crate) fn can_run() -> bool {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return false;
    }
    if let Err(error) = isolation::cgroup::find_mount() {
        eprintln!("skipped: needs cgroup v2: {error}");
        return false;
    }
    true
}

/// Other packages' programs: built here where the tests of this package are run alone.
pub(crate) fn beside_noded(name: &str) -> PathBuf {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let status = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "-p",
                "noded-keeper",
                "-p",
                "noded-jail",
                "--bin",
                "noded-keeper",
                "--bin",
                "noded-jail",
                "--example",
                "hostile",
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(
            status.success(),
            "noded-keeper and noded-jail were not built"
        );
    });
    Path::new(env!("CARGO_BIN_EXE_noded")).with_file_name(name)
}

pub(crate) struct Scene {
    pub(crate) directory: TempDir,
    pub(crate) server: FakeServer,
    cgroup: String,
    noded: Option<Child>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::on_disk(|_| {})
    }

    /// A node whose data directory is what `mount` makes of it.
    pub(crate) fn on_disk(mount: impl FnOnce(&Path)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let directory = tempfile::Builder::new()
            .prefix("drover-node-")
            .tempdir()
            .unwrap();
        let tls = directory.path().join("tls");
        std::fs::create_dir(&tls).unwrap();
        let data = directory.path().join("data");
        std::fs::create_dir(&data).unwrap();
        mount(&data);
        let volume = directory.path().join("volume");
        std::fs::create_dir(&volume).unwrap();
        std::fs::set_permissions(&volume, std::fs::Permissions::from_mode(0o777)).unwrap();
        // A link, so that a test can put another build in its place.
        std::os::unix::fs::symlink(beside_noded(KEEPER), directory.path().join(KEEPER)).unwrap();
        let server = FakeServer::start(&tls);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let cgroup = format!("drover-node-test-{}-{number}", std::process::id());
        let mut scene = Self {
            directory,
            server,
            cgroup,
            noded: None,
        };
        scene.configure("");
        scene.start();
        scene
    }

    /// Writes the configuration, with `more` at its end.
    pub(crate) fn configure(&self, more: &str) {
        let base = self.directory.path().display();
        let text = format!(
            r#"
name          = "test-node"
data_dir      = "{base}/data"
run_dir       = "{base}/run"
servers       = ["{address}"]
join_token    = "let me in"
cgroup_base   = "{cgroup}"
keeper_binary = "{keeper}"
log_level     = "debug,quinn=warn,rustls=warn"
tls {{
  ca_file   = "{base}/tls/ca.pem"
  cert_file = "{base}/tls/node.pem"
  key_file  = "{base}/tls/node-key.pem"
}}
driver "raw_exec" {{
  enabled = true
}}
driver "mock_driver" {{
  enabled = true
}}
host_volume "shared" {{
  path = "{base}/volume"
}}
{more}
"#,
            address = self.server.address,
            cgroup = self.cgroup,
            keeper = self.keeper().display(),
        );
        std::fs::write(self.directory.path().join("noded.hcl"), text).unwrap();
    }

    /// The program that noded takes for keeper and pump.
    pub(crate) fn keeper(&self) -> PathBuf {
        self.directory.path().join(KEEPER)
    }

    /// As a package does it: another file under the same name.
    pub(crate) fn install_keeper(&self, bytes: &[u8]) {
        let new = self.directory.path().join("new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(&new, self.keeper()).unwrap();
    }

    pub(crate) fn start(&mut self) {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.directory.path().join("noded.log"))
            .unwrap();
        // The strictest umask: what noded, keeper and pump make must not depend on it.
        let child = Command::new("/bin/sh")
            .args(["-c", "umask 077; exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_noded"))
            .arg("--config")
            .arg(self.directory.path().join("noded.hcl"))
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.noded = Some(child);
    }

    /// SIGHUP.
    pub(crate) fn reload(&self) {
        let pid = self.noded.as_ref().unwrap().id();
        kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGHUP).unwrap();
    }

    /// What noded wrote so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("noded.log")).unwrap_or_default()
    }

    /// kill -9, and gone when this returns.
    pub(crate) fn kill(&mut self) {
        let mut child = self.noded.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        self.server.hang_up();
    }

    /// SIGTERM; says whether it ended well.
    pub(crate) fn stop(&mut self) -> bool {
        let mut child = self.noded.take().unwrap();
        kill(
            Pid::from_raw(child.id().try_into().unwrap()),
            Signal::SIGTERM,
        )
        .unwrap();
        child.wait().unwrap().success()
    }

    /// What a reboot leaves of a host: files on its disk.
    pub(crate) fn lose_everything_but_the_disk(&mut self) {
        self.kill();
        for pid in self.custodians() {
            kill(pid, Signal::SIGKILL).unwrap();
        }
        self.remove_cgroups();
        self.unmount();
        std::fs::remove_dir_all(self.directory.path().join("run")).unwrap();
        let (mut journal, _) = Journal::open(&self.data().join("node"), || {}).unwrap();
        let boot = BootId([0; 16]);
        journal.append(&JournalRecord::Boot { boot }).unwrap();
    }

    fn remove_cgroups(&self) {
        let base = self.cgroup_path();
        let _ = std::fs::write(base.join("cgroup.kill"), "1");
        let end = Instant::now() + PATIENCE;
        while base.exists() && Instant::now() < end {
            if let Ok(hierarchy) = isolation::cgroup::Hierarchy::open(Path::new(&self.cgroup)) {
                let _ = hierarchy.remove(isolation::cgroup::Patience::Milliseconds(1000));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The node's own file system, where the test gave it one.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = self.directory.path().to_str().unwrap();
        mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .filter(|path| path.starts_with(own))
            .map(PathBuf::from)
            .collect()
    }

    /// The deepest first; what a dying process still uses goes with it.
    fn unmount(&self) {
        for path in self.mounts().into_iter().rev() {
            let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
        }
    }

    /// `noded --end-custody`: whether it did, and what it said.
    pub(crate) fn end_custody(&self) -> (bool, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_noded"))
            .arg("--config")
            .arg(self.directory.path().join("noded.hcl"))
            .arg("--end-custody")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    }

    pub(crate) fn cgroup_path(&self) -> PathBuf {
        let mount = isolation::cgroup::find_mount().unwrap();
        mount.path.join(&self.cgroup)
    }

    pub(crate) fn alloc_path(&self, alloc: protocol_model::AllocId) -> PathBuf {
        self.directory
            .path()
            .join("data/alloc")
            .join(alloc.to_string())
    }

    /// Processes of ours besides noded: their command lines name our directory.
    pub(crate) fn custodians(&self) -> Vec<Pid> {
        let own = self.directory.path().to_str().unwrap();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.contains("noded-keeper") && line.contains(own) {
                found.push(Pid::from_raw(pid));
            }
        }
        found
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(mut child) = self.noded.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.directory.path().join("noded.log"));
            eprintln!("noded said:\n{}", log.unwrap_or_default());
        }
        for pid in self.custodians() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        self.remove_cgroups();
        self.unmount();
    }
}
