//! The three streams of a process beside a task: pipes, or one terminal.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use protocol_wire::v1::exec_output::Output;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

const READ_BYTES_MAX: usize = 32 * 1024;
/// What a terminal takes for "no more input" (^D).
const END_OF_TRANSMISSION: u8 = 4;

/// The process's ends.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Our ends.
#[derive(Debug)]
pub(super) enum Channel {
    Pipes {
        stdin: Option<pipe::Sender>,
        stdout: Option<pipe::Receiver>,
        stderr: Option<pipe::Receiver>,
    },
    Terminal {
        master: AsyncFd<OwnedFd>,
        drained: Drained,
    },
}

/// Whether everything that was written has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drained {
    No,
    Yes,
}

pub(super) fn pipes() -> io::Result<(Channel, Ends)> {
    let (their_stdin, our_stdin) = pipe_with(PipeFlags::CLOEXEC)?;
    let (our_stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (our_stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    let channel = Channel::Pipes {
        stdin: Some(pipe::Sender::from_owned_fd(our_stdin)?),
        stdout: Some(pipe::Receiver::from_owned_fd(our_stdout)?),
        stderr: Some(pipe::Receiver::from_owned_fd(our_stderr)?),
    };
    let ends = Ends {
        stdin: their_stdin,
        stdout: their_stdout,
        stderr: their_stderr,
    };
    Ok((channel, ends))
}

pub(super) fn terminal() -> io::Result<(Channel, Ends)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let stdin = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    let ends = Ends {
        stdout: stdin.try_clone()?,
        stderr: stdin.try_clone()?,
        stdin,
    };
    rustix::io::ioctl_fionbio(&master, true)?;
    let channel = Channel::Terminal {
        master: crate::poll_fd::poll(master)?,
        drained: Drained::No,
    };
    Ok((channel, ends))
}

impl Channel {
    pub(super) fn is_drained(&self) -> bool {
        match self {
            Self::Pipes { stdout, stderr, .. } => stdout.is_none() && stderr.is_none(),
            Self::Terminal { drained, .. } => *drained == Drained::Yes,
        }
    }

    /// The next output; `None` where one of the streams ended. Cancel-safe.
    pub(super) async fn output(&mut self) -> Option<Output> {
        match self {
            Self::Pipes { stdout, stderr, .. } => {
                let (mut out, mut err) = (Vec::new(), Vec::new());
                let (ended_out, ended_err) = tokio::select! {
                    read = read(stdout.as_mut(), &mut out) => (read == Ended::Yes, false),
                    read = read(stderr.as_mut(), &mut err) => (false, read == Ended::Yes),
                };
                if ended_out {
                    *stdout = None;
                }
                if ended_err {
                    *stderr = None;
                }
                if !out.is_empty() {
                    Some(Output::Stdout(Bytes::from(out)))
                } else if !err.is_empty() {
                    Some(Output::Stderr(Bytes::from(err)))
                } else {
                    None
                }
            }
            Self::Terminal { master, drained } => {
                let mut bytes = vec![0; READ_BYTES_MAX];
                let read = master
                    .async_io(tokio::io::Interest::READABLE, |master| {
                        Ok(rustix::io::read(master, bytes.as_mut_slice())?)
                    })
                    .await;
                match read {
                    Ok(count) if count > 0 => {
                        bytes.truncate(count);
                        Some(Output::Stdout(Bytes::from(bytes)))
                    }
                    // EIO: nobody has the terminal open any more.
                    Ok(_) | Err(_) => {
                        *drained = Drained::Yes;
                        None
                    }
                }
            }
        }
    }

    /// Whatever still comes is not waited for.
    pub(super) fn close_output(&mut self) {
        match self {
            Self::Pipes { stdout, stderr, .. } => {
                *stdout = None;
                *stderr = None;
            }
            Self::Terminal { drained, .. } => *drained = Drained::Yes,
        }
    }

    /// Hands input on. A process that does not want it any more is no error.
    pub(super) async fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Pipes { stdin, .. } => {
                if let Some(pipe) = stdin
                    && pipe.write_all(bytes).await.is_err()
                {
                    *stdin = None;
                }
            }
            Self::Terminal { master, .. } => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let written = master
                        .async_io(tokio::io::Interest::WRITABLE, |master| {
                            Ok(rustix::io::write(master, rest)?)
                        })
                        .await;
                    match written {
                        Ok(count) => rest = &rest[count..],
                        Err(_) => return,
                    }
                }
            }
        }
    }

    /// No more input comes.
    pub(super) async fn close_input(&mut self) {
        match self {
            Self::Pipes { stdin, .. } => *stdin = None,
            Self::Terminal { .. } => self.write(&[END_OF_TRANSMISSION]).await,
        }
    }

    pub(super) fn resize(&self, size: Winsize) {
        if let Self::Terminal { master, .. } = self
            && let Err(error) = tcsetwinsize(master.get_ref(), size)
            && error != Errno::IO
        {
            tracing::debug!(%error, "the terminal was not resized");
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Yes,
    No,
}

async fn read(pipe: Option<&mut pipe::Receiver>, bytes: &mut Vec<u8>) -> Ended {
    let Some(pipe) = pipe else {
        return std::future::pending().await;
    };
    bytes.reserve(READ_BYTES_MAX);
    match pipe.read_buf(bytes).await {
        Ok(count) if count > 0 => Ended::No,
        Ok(_) | Err(_) => Ended::Yes,
    }
}
