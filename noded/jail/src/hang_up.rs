//! The end of a child whose noded is gone.

use std::io;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process, kill_process_group};

/// The thread only polls.
const STACK_BYTES: usize = 64 * 1024;

/// Kills this process, and its process group where it leads one, when descriptor 0 is hung up. The
/// thread inherits the restrictions of the caller.
///
/// # Errors
/// No thread can be started.
pub(crate) fn watch() -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("hang-up".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(|| {
            let input = std::io::stdin();
            let mut polled = [PollFd::new(&input, PollFlags::empty())];
            while matches!(poll(&mut polled, None), Err(Errno::INTR)) {}
            die();
        })
}

fn die() {
    let own = getpid();
    // Programs that the work started are in the group. A process that leads none is alone.
    let _alone = kill_process_group(own, Signal::KILL);
    let _dead = kill_process(own, Signal::KILL);
    // The first process of a namespace is not killed by its own signals. Its exit ends the others.
    exit_now();
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the work is on another thread, and nobody waits for its end"
)]
fn exit_now() -> ! {
    std::process::exit(1)
}
