//! Each profile tries what it must not do; the same attempts succeed without a jail.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Once;

/// The example `probe`, which `cargo test --test it` does not build.
fn probe() -> PathBuf {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        // With the features of the workspace, as the tests: nothing is compiled a second time.
        let packages = ["-p", "noded-jail", "-p", "hack-features"];
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--example", "probe"])
            .args(packages)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "the example probe was not built");
    });
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().parent().unwrap();
    folder.join("examples/probe")
}

fn outcomes(jail: &str) -> BTreeMap<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let staging = tempfile::tempdir().unwrap();
    let mut target = Command::new("/bin/sleep").arg("60").spawn().unwrap();
    let output = Command::new(probe())
        .args([jail, &address, &target.id().to_string()])
        .arg(staging.path())
        .output()
        .unwrap();
    target.kill().unwrap();
    target.wait().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines
        .map(|(attempt, outcome)| (attempt.to_owned(), outcome.to_owned()))
        .collect()
}

const ATTEMPTS: [&str; 15] = [
    "connect", "create", "exec", "git", "listen", "open", "ptrace", "secret", "signal", "stage",
    "thread", "trust", "udp", "unix", "unshare",
];
/// Attempts that a fetch needs.
const OF_FETCH: [&str; 7] = ["connect", "git", "open", "stage", "thread", "trust", "udp"];

#[test]
fn render_can_neither_open_nor_connect_nor_exec_nor_trace() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let free = outcomes("free");
    let confined = outcomes("compute");
    for attempt in ATTEMPTS {
        assert_eq!(free[attempt], "done", "{attempt} without a jail");
        assert_eq!(confined[attempt], "permission denied", "{attempt}");
    }
    for outcomes in [free, confined] {
        assert_eq!(outcomes["memory"], "done");
    }
}

#[test]
fn fetch_can_only_connect_and_run_git_and_write_its_directory() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let confined = outcomes("fetch");
    for attempt in ATTEMPTS {
        let expected = match OF_FETCH.contains(&attempt) {
            true => "done",
            false => "permission denied",
        };
        assert_eq!(confined[attempt], expected, "{attempt}");
    }
}
