//! The program under signals.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use controlplane_server::dev;
use protocol_transport::Region;
use rustix::process::{Pid, Signal, kill_process};

use crate::world::PATIENCE;

/// Lines that are kept until they are looked at: far more than a test makes.
const LINES_MAX: usize = 1 << 16;

/// The program, and what it logs. Killed when a test ends before it does.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(config: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_controlplane"));
        Self::spawn(command.arg("--config").arg(config))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .env_remove("DROVER_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built for this test");
        let stderr = child.stderr.take().expect("it was asked for");
        let (send, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // Whoever does not read must not hold the program back.
                let _ = send.try_send(line);
            }
        });
        Self { child, lines }
    }

    /// Waits for its end.
    fn ended(&mut self) -> ExitStatus {
        let limit = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status;
            }
            assert!(Instant::now() < limit, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("an id");
        kill_process(Pid::from_raw(id).expect("an id"), signal).expect("it runs");
    }

    /// Waits for a line with `text`.
    fn wait_for(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("{text:?} is not said: {error}"));
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_config(directory: &Path, level: &str) -> std::path::PathBuf {
    let made = dev::certificates(directory, &Region::global()).expect("certificates");
    let path = directory.join("server.hcl");
    let text = format!(
        r#"
data_dir  = {data:?}
log_level = "{level}"
ports {{
  http = 0
  quic = 0
}}
tls {{
  ca_file   = {ca:?}
  cert_file = {cert:?}
  key_file  = {key:?}
}}
"#,
        data = directory.join("data").display().to_string(),
        ca = made.ca.display().to_string(),
        cert = made.server.certificate.display().to_string(),
        key = made.server.key.display().to_string(),
    );
    std::fs::write(&path, text).expect("it is written");
    path
}

#[test]
fn sighup_ends_nothing_and_reads_the_log_level_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = write_config(directory.path(), "info");
    let mut running = Running::start(&config);
    running.wait_for("serving");
    std::fs::write(&config, "no configuration").expect("it is written");
    running.signal(Signal::HUP);
    running.wait_for("nothing is changed");
    write_config(directory.path(), "debug");
    running.signal(Signal::HUP);
    let line = running.wait_for("limits.budget and the labels of metrics are read");
    assert!(line.contains("DEBUG"), "{line}");
    running.signal(Signal::TERM);
    let status = running.ended();
    assert!(status.success(), "{status}");
}

#[test]
fn sighup_shows_the_certificate_that_is_there_now() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = write_config(directory.path(), "info");
    let made = dev::certificates(directory.path(), &Region::global()).expect("certificates");
    let mut running = Running::start(&config);
    running.wait_for("serving");
    let own = std::fs::read(&made.server.certificate).expect("is there");
    std::fs::write(&made.server.certificate, "no certificate").expect("is written");
    running.signal(Signal::HUP);
    let line = running.wait_for("the certificate was not replaced");
    let name = made.server.certificate.display().to_string();
    assert!(line.contains(&name), "{line}");
    let of_node = std::fs::read(&made.node.certificate).expect("is there");
    let key_of_node = std::fs::read(&made.node.key).expect("is there");
    let key = std::fs::read(&made.server.key).expect("is there");
    std::fs::write(&made.server.certificate, of_node).expect("is written");
    std::fs::write(&made.server.key, key_of_node).expect("is written");
    running.signal(Signal::HUP);
    let line = running.wait_for("the certificate was not replaced");
    assert!(line.contains("of a node, not of a server"), "{line}");
    std::fs::write(&made.server.certificate, own).expect("is written");
    std::fs::write(&made.server.key, key).expect("is written");
    running.signal(Signal::HUP);
    running.wait_for("new connections are shown");
    running.signal(Signal::TERM);
    let status = running.ended();
    assert!(status.success(), "{status}");
}

/// Runs what follows in a network of its own, where the ports of `--dev` are free.
const ALONE: &str = "ip link set lo up && exec \"$@\"";

#[test]
fn a_development_server_ends_with_its_terminal() {
    let mut tried = Command::new("unshare");
    let tried = tried.args(["-n", "sh", "-c", ALONE, "sh", "true"]).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        println!("skipped: needs root, unshare and ip for a network of its own");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("unshare");
    command
        .args(["-n", "sh", "-c", ALONE, "sh"])
        // The tests themselves may run under nohup.
        .args(["env", "--default-signal=HUP"])
        .args([env!("CARGO_BIN_EXE_controlplane"), "--dev", "--data-dir"])
        .arg(directory.path());
    let mut running = Running::spawn(&mut command);
    running.wait_for("serving");
    running.signal(Signal::HUP);
    let status = running.ended();
    assert!(status.success(), "{status}");
}

#[test]
fn a_log_level_that_is_none_is_refused_also_in_the_environment() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = write_config(directory.path(), "info");
    let output = Command::new(env!("CARGO_BIN_EXE_controlplane"))
        .arg("--config")
        .arg(&config)
        .env("DROVER_LOG", "warning")
        .output()
        .expect("the program was built for this test");
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("\"warning\" is none of"), "{words}");
}
