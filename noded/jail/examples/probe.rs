//! Tries what a jail child must not do, with and without the jail, and prints the outcomes. Only
//! for tests: they show that the restrictions, and nothing else, are the reason of a refusal.
//!
//! `probe free|compute ADDRESS PID`: a TCP address that accepts, and a process that may be traced.

use std::fs::File;
use std::io::{self, Error, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;

use nix::sys::ptrace;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use noded_jail::Verb;
use noded_jail::confine::{Profile, limit, shut_in};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [jail, address, pid] = words.as_slice() else {
        panic!("usage: probe free|compute ADDRESS PID");
    };
    let target = Pid::from_raw(pid.parse().expect("a process"));
    let watch = || std::thread::Builder::new().spawn(|| {});
    match jail.as_str() {
        "free" => {}
        "compute" => {
            limit(&Verb::Render.limits()).expect("limits");
            shut_in(&Profile::Compute, watch).expect("confined");
        }
        other => panic!("unknown jail {other:?}"),
    }
    say("open", File::open("/etc/passwd").map(drop));
    say("create", File::create("/tmp/drover-jail-probe").map(drop));
    say("connect", TcpStream::connect(address).map(drop));
    say("udp", UdpSocket::bind("127.0.0.1:0").map(drop));
    say("exec", Command::new("/bin/true").status().map(drop));
    say("thread", std::thread::Builder::new().spawn(|| {}).map(drop));
    say("signal", kill(target, None).map_err(Error::from));
    let traced = ptrace::attach(target).map_err(Error::from);
    say("ptrace", traced);
    // A process that only computes still can.
    say("memory", {
        let bytes = vec![1_u8; 8 * 1024 * 1024];
        let is_written = bytes.iter().all(|byte| *byte == 1);
        is_written.then_some(()).ok_or_else(|| Error::other("lost"))
    });
}

fn say(attempt: &str, outcome: io::Result<()>) {
    let told = match outcome {
        Ok(()) => "done".to_owned(),
        Err(error) => error.kind().to_string(),
    };
    writeln!(io::stdout(), "{attempt}: {told}").expect("somebody reads");
}
