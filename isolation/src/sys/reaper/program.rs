//! The whole program that is PID 1 of a task with `init = true`: forwards signals to the task's
//! program, buries orphans, ends as the program ends.
//!
//! ```text
//!   all signals blocked since birth -> read one ─┬─ SIGCHLD: reap; the program: exit
//!                 ^                              └─ any other: kill(2, it)
//!                 └──────────────────────────────────────┘
//! ```
//!
//! Read from a signalfd rather than waited for (sigwaitinfo(2)), during which they would not show
//! as blocked: keeper looks there for whether a stop signal will arrive.
//!
//! Compiled by `build.rs` into a static file of a few KiB that needs nothing from the task's root,
//! neither a loader nor a library, and carries nothing of the keeper's memory. It uses no memory
//! but its stack.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::mem::MaybeUninit;

/// The first process that is born after PID 1 in a new namespace (pid_namespaces(7)).
const PROGRAM: usize = 2;
/// The same on every processor that this is built for (signal(7)).
const SIGCHLD: u32 = 17;
const WNOHANG: usize = 1;
const PR_SET_NAME: usize = 15;
/// A process that ended by a signal has this much more than its number, as shells have it: PID 1
/// cannot end by that signal itself.
const BY_SIGNAL: usize = 128;
/// Every signal; the kernel's set has 64 bits.
static ALL: u64 = u64::MAX;
static NAME: [u8; 5] = *b"init\0";
/// What a signalfd gives for one signal (signalfd(2)): its number, and much that is of no use here.
#[repr(C)]
struct SignalInfo {
    number: u32,
    rest: [u32; 31],
}

#[cfg(target_arch = "x86_64")]
mod number {
    pub const CLOSE: usize = 3;
    pub const READ: usize = 0;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const PRCTL: usize = 157;
    pub const EXIT_GROUP: usize = 231;
    pub const SIGNALFD4: usize = 289;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub const CLOSE: usize = 57;
    pub const EXIT_GROUP: usize = 94;
    pub const KILL: usize = 129;
    pub const READ: usize = 63;
    pub const SIGNALFD4: usize = 74;
    pub const PRCTL: usize = 167;
    pub const WAIT4: usize = 260;
}

#[cfg(target_arch = "x86_64")]
global_asm!(".globl _start", "_start:", "and rsp, -16", "call {}", "ud2", sym main);

#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "bl {}", "udf #0", sym main);

extern "C" fn main() -> ! {
    // The keeper and the program hold the streams; this process has nothing to say.
    for descriptor in 0..3 {
        call(number::CLOSE, [descriptor, 0, 0, 0]);
    }
    call(number::PRCTL, [PR_SET_NAME, &raw const NAME as usize, 0, 0]);
    let new = usize::MAX;
    let all = &raw const ALL as usize;
    let signals = call(number::SIGNALFD4, [new, all, size_of::<u64>(), 0]).unsigned_abs();
    let mut info = MaybeUninit::<SignalInfo>::uninit();
    let place = info.as_mut_ptr();
    loop {
        let size = size_of::<SignalInfo>();
        let count = call(number::READ, [signals, place as usize, size, 0]);
        if count.unsigned_abs() != size {
            // Nothing interrupts a read that no signal can reach; without signals there is still
            // somebody to wait for.
            reap();
            continue;
        }
        // SAFETY: the kernel has filled all of it.
        match unsafe { (*place).number } {
            SIGCHLD => reap(),
            // One that is gone already: SIGCHLD is next.
            signal => drop(call(number::KILL, [PROGRAM, signal as usize, 0, 0])),
        }
    }
}

/// One SIGCHLD may stand for many.
fn reap() {
    loop {
        let mut status: i32 = 0;
        let anyone = usize::MAX;
        let place = &raw mut status as usize;
        let pid = call(number::WAIT4, [anyone, place, WNOHANG, 0]);
        if pid <= 0 {
            return;
        }
        if pid.unsigned_abs() == PROGRAM {
            end(status.unsigned_abs() as usize);
        }
    }
}

/// The kernel ends everything else in the namespace.
fn end(status: usize) -> ! {
    let signal = status & 0x7f;
    let code = if signal == 0 {
        (status >> 8) & 0xff
    } else {
        BY_SIGNAL + signal
    };
    loop {
        call(number::EXIT_GROUP, [code, 0, 0, 0]);
    }
}

/// A system call of up to four arguments; the result or minus the error number.
#[cfg(target_arch = "x86_64")]
fn call(number: usize, [one, two, three, four]: [usize; 4]) -> isize {
    let result;
    // SAFETY: none of the calls above touches memory but what its pointers name, which lives as
    // long as the call; the clobbered registers are those of the kernel's interface.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") one,
            in("rsi") two,
            in("rdx") three,
            in("r10") four,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// A system call of up to four arguments; the result or minus the error number.
#[cfg(target_arch = "aarch64")]
fn call(number: usize, [one, two, three, four]: [usize; 4]) -> isize {
    let result;
    // SAFETY: none of the calls above touches memory but what its pointers name, which lives as
    // long as the call.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") one => result,
            in("x1") two,
            in("x2") three,
            in("x3") four,
            options(nostack)
        );
    }
    result
}

/// Nothing above panics; the compiler asks for this all the same.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    end(0xff << 8)
}
