//! Running nft(8). Input and output are files in memory, so that nothing has to be read or written
//! while it runs and its time can be limited.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

/// Where nft is looked for: in PATH, then where Debian has it, which PATH may leave out.
const PROGRAMS: [&str; 3] = ["nft", "/usr/sbin/nft", "/sbin/nft"];
/// How long one run may take. A change takes about 5 ms, and 1 s with 10,000 elements.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Most bytes that are read of its output: 60 bytes an element, 65,535 ports in four maps.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// An answer of nft.
#[derive(Debug)]
pub(super) enum Answer {
    /// It succeeded and wrote this.
    Done(String),
    /// It failed with this text.
    Refused(String),
}

/// Why nft gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// It is not installed.
    #[error("cannot find nft in PATH or /usr/sbin: install the package nftables")]
    Missing,
    /// It could not be run.
    #[error("cannot run nft")]
    Run(#[source] io::Error),
    /// It did not end in time and was killed.
    #[error("nft did not end within {} s and was killed", TIME_MAX.as_secs())]
    Late,
}

/// Carries statements out as one transaction, in the namespace of the calling thread.
pub(super) fn apply(statements: &str) -> Result<Answer, NftError> {
    run(&["-f", "-"], statements)
}

/// Asks for a description in JSON.
pub(super) fn describe(question: &[&str]) -> Result<Answer, NftError> {
    run(&[&["-j"], question].concat(), "")
}

fn run(arguments: &[&str], input: &str) -> Result<Answer, NftError> {
    let mut stdin = memory().map_err(NftError::Run)?;
    stdin.write_all(input.as_bytes()).map_err(NftError::Run)?;
    stdin.rewind().map_err(NftError::Run)?;
    let (stdout, stderr) = (
        memory().map_err(NftError::Run)?,
        memory().map_err(NftError::Run)?,
    );
    let mut child = spawn(arguments, &stdin, &stdout, &stderr)?;
    let is_over = wait(&child);
    if !matches!(is_over, Ok(true)) {
        // It may have ended meanwhile; then there is nothing to kill.
        let _ended = child.kill();
    }
    let status = child.wait().map_err(NftError::Run)?;
    match is_over {
        Ok(true) if status.success() => read(stdout).map(Answer::Done),
        Ok(true) => read(stderr).map(Answer::Refused),
        Ok(false) => Err(NftError::Late),
        Err(error) => Err(NftError::Run(error)),
    }
}

fn spawn(
    arguments: &[&str],
    stdin: &File,
    stdout: &File,
    stderr: &File,
) -> Result<Child, NftError> {
    let stdio = |file: &File| file.try_clone().map(Stdio::from).map_err(NftError::Run);
    for program in PROGRAMS {
        let spawned = Command::new(program)
            .args(arguments)
            // Its messages are read here.
            .env("LC_ALL", "C")
            .stdin(stdio(stdin)?)
            .stdout(stdio(stdout)?)
            .stderr(stdio(stderr)?)
            .spawn();
        match spawned {
            Ok(child) => return Ok(child),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(NftError::Run(error)),
        }
    }
    Err(NftError::Missing)
}

/// Whether the process ended in time.
fn wait(child: &Child) -> io::Result<bool> {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let mut watched = [PollFd::new(&pidfd, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: TIME_MAX.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    // An interrupted wait begins again: signals are rare, and the limit is a safeguard.
    let ready = rustix::io::retry_on_intr(|| poll(&mut watched, Some(&timeout)))?;
    Ok(ready == 1)
}

fn memory() -> io::Result<File> {
    Ok(File::from(memfd_create(c"nft", MemfdFlags::CLOEXEC)?))
}

fn read(mut file: File) -> Result<String, NftError> {
    let mut bytes = Vec::new();
    file.rewind().map_err(NftError::Run)?;
    file.take(OUTPUT_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(NftError::Run)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}
