//! Tries what a jail child must not do, with and without the jail, and prints the outcomes. Only
//! for tests: they show that the restrictions, and nothing else, are the reason of a refusal.
//!
//! `probe free|compute|fetch ADDRESS PID DIRECTORY`: a TCP address that accepts, a process that may
//! be traced, and the directory of a fetch.

use std::fs::File;
use std::io::{self, Error, ErrorKind, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::sys::ptrace;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use noded_jail::Verb;
use noded_jail::confine::{Profile, limit, shut_in};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [jail, address, pid, directory] = words.as_slice() else {
        panic!("usage: probe free|compute|fetch ADDRESS PID DIRECTORY");
    };
    let target = Pid::from_raw(pid.parse().expect("a process"));
    let watch = || std::thread::Builder::new().spawn(|| {});
    match jail.as_str() {
        "free" => {}
        "compute" => {
            limit(&Verb::Render.limits()).expect("limits");
            shut_in(&Profile::Compute, watch).expect("confined");
        }
        "fetch" => {
            limit(&Verb::Fetch.limits()).expect("limits");
            let staging = directory.into();
            shut_in(&Profile::Fetch { staging }, watch).expect("confined");
        }
        other => panic!("unknown jail {other:?}"),
    }
    say("open", File::open("/etc/passwd").map(drop));
    say("secret", File::open("/etc/shadow").map(drop));
    let staged = File::create(Path::new(directory).join("staged"));
    say("stage", staged.map(drop));
    say("create", File::create("/tmp/drover-jail-probe").map(drop));
    say("connect", TcpStream::connect(address).map(drop));
    say("udp", UdpSocket::bind("127.0.0.1:0").map(drop));
    say("listen", TcpListener::bind("127.0.0.1:0").map(drop));
    say("unix", UnixDatagram::unbound().map(drop));
    say("exec", Command::new("/bin/true").status().map(drop));
    say("git", git(Path::new(directory)));
    say("thread", std::thread::Builder::new().spawn(|| {}).map(drop));
    say("signal", kill(target, None).map_err(Error::from));
    let traced = ptrace::attach(target).map_err(Error::from);
    say("ptrace", traced);
    let unshared = unshare(CloneFlags::CLONE_NEWNS).map_err(Error::from);
    say("unshare", unshared);
    // A process that only computes still can.
    say("memory", {
        let bytes = vec![1_u8; 8 * 1024 * 1024];
        let is_written = bytes.iter().all(|byte| *byte == 1);
        is_written.then_some(()).ok_or_else(|| Error::other("lost"))
    });
}

/// A repository with submodules, which a shell script of git's looks after.
fn git(directory: &Path) -> io::Result<()> {
    for words in [&["init", "--quiet", "."][..], &["submodule", "update"][..]] {
        let mut command = Command::new("git");
        let output = command
            .args(words)
            .current_dir(directory)
            .env("HOME", directory)
            .output()?;
        if !output.status.success() {
            return Err(Error::other(format!("{words:?}: {output:?}")));
        }
    }
    Ok(())
}

fn say(attempt: &str, outcome: io::Result<()>) {
    let outcome = match outcome {
        Ok(()) => "done".to_owned(),
        Err(error) if error.kind() == ErrorKind::Other => error.to_string(),
        Err(error) => error.kind().to_string(),
    };
    let line = format!("{attempt}: {outcome}\n");
    io::stdout().write_all(line.as_bytes()).expect("a reader");
}
