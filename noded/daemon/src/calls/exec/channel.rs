//! The three streams of a process beside a task: pipes, or one terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Buf, Bytes};
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

/// What the process reads: handed on as fast as it takes it, and kept as long.
#[derive(Debug)]
pub(super) struct Input {
    end: InputEnd,
    /// Not taken yet.
    pending: Bytes,
    /// No more comes; told behind what is pending.
    closing: bool,
}

#[derive(Debug)]
enum InputEnd {
    /// `None` once it is closed, or the process does not want it any more.
    Pipe(Option<pipe::Sender>),
    Terminal(Arc<AsyncFd<OwnedFd>>),
}

/// What the process writes.
#[derive(Debug)]
pub(super) enum Outputs {
    Pipes {
        stdout: Option<pipe::Receiver>,
        stderr: Option<pipe::Receiver>,
    },
    Terminal {
        master: Arc<AsyncFd<OwnedFd>>,
        drained: Drained,
    },
}

/// Our ends. They are two, because a process that waits for us to read may not read meanwhile.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) input: Input,
    pub(super) outputs: Outputs,
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
    let stdin = pipe::Sender::from_owned_fd(our_stdin)?;
    let channel = Channel {
        input: Input::new(InputEnd::Pipe(Some(stdin))),
        outputs: Outputs::Pipes {
            stdout: Some(pipe::Receiver::from_owned_fd(our_stdout)?),
            stderr: Some(pipe::Receiver::from_owned_fd(our_stderr)?),
        },
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
    let master = Arc::new(crate::poll_fd::poll(master)?);
    let channel = Channel {
        input: Input::new(InputEnd::Terminal(Arc::clone(&master))),
        outputs: Outputs::Terminal {
            master,
            drained: Drained::No,
        },
    };
    Ok((channel, ends))
}

impl Outputs {
    pub(super) fn is_drained(&self) -> bool {
        match self {
            Self::Pipes { stdout, stderr } => stdout.is_none() && stderr.is_none(),
            Self::Terminal { drained, .. } => *drained == Drained::Yes,
        }
    }

    /// The next output; `None` where one of the streams ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Output> {
        match self {
            Self::Pipes { stdout, stderr } => {
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
    pub(super) fn close(&mut self) {
        match self {
            Self::Pipes { stdout, stderr } => {
                *stdout = None;
                *stderr = None;
            }
            Self::Terminal { drained, .. } => *drained = Drained::Yes,
        }
    }
}

impl Input {
    fn new(end: InputEnd) -> Self {
        Self {
            end,
            pending: Bytes::new(),
            closing: false,
        }
    }

    /// Whether the process has not taken everything yet: nothing more is to be put behind it.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Input to be handed on by [`Self::hand_on`], when the one before is.
    pub(super) fn put(&mut self, bytes: Bytes) {
        if self.pending.is_empty() {
            self.pending = bytes;
        } else {
            self.pending = [&*self.pending, &*bytes].concat().into();
        }
        self.give_up_if_unwanted();
    }

    /// No more input comes.
    pub(super) fn close(&mut self) {
        match self.end {
            InputEnd::Pipe(_) => {
                self.closing = true;
                self.close_when_empty();
            }
            InputEnd::Terminal(_) => self.put(Bytes::from_static(&[END_OF_TRANSMISSION])),
        }
    }

    /// Hands on as much as the process takes at once, when it takes something. Cancel-safe. A
    /// process that does not want it any more is no error.
    pub(super) async fn hand_on(&mut self) {
        let taken = match &mut self.end {
            InputEnd::Pipe(None) => Ok(self.pending.len()),
            // One write, which is done or is not.
            InputEnd::Pipe(Some(pipe)) => pipe.write(&self.pending).await,
            InputEnd::Terminal(master) => {
                let bytes = &self.pending;
                let write = |master: &OwnedFd| Ok(rustix::io::write(master, bytes)?);
                master.async_io(tokio::io::Interest::WRITABLE, write).await
            }
        };
        match taken {
            Ok(count) => self.pending.advance(count.min(self.pending.len())),
            Err(_) => {
                self.pending.clear();
                if let InputEnd::Pipe(pipe) = &mut self.end {
                    *pipe = None;
                }
            }
        }
        self.close_when_empty();
    }

    fn give_up_if_unwanted(&mut self) {
        if matches!(self.end, InputEnd::Pipe(None)) {
            self.pending.clear();
        }
    }

    fn close_when_empty(&mut self) {
        if self.closing
            && self.pending.is_empty()
            && let InputEnd::Pipe(pipe) = &mut self.end
        {
            *pipe = None;
        }
    }

    pub(super) fn resize(&self, size: Winsize) {
        if let InputEnd::Terminal(master) = &self.end
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
