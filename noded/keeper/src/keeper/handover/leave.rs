//! The last thing that a keeper does before it is another program.

use super::check::Check;
use super::state::{HeldState, LeaseState, LingeringState, RunState, SessionState, State};
use crate::keeper::custody::{Held, Run};
use crate::keeper::{Handles, Keeper, TAKE_OVER};
use crate::memfd;
use crate::protocol::{CallId, TaskKey};
use crate::report::tell;
use protocol_error_chain::chain;
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;

/// Packets that wait for a client; with more than this it is disconnected instead, as a client that
/// does not read is at any time.
const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The descriptors that a state names.
#[derive(Debug, Default)]
struct Named<'a>(Vec<BorrowedFd<'a>>);

impl<'a> Named<'a> {
    fn add(&mut self, descriptor: &'a OwnedFd) -> RawFd {
        self.0.push(descriptor.as_fd());
        descriptor.as_raw_fd()
    }
}

impl Keeper {
    /// Becomes the program that was asked; returns only where that fails, with the reason, and then
    /// nothing has changed.
    pub(super) fn leave(&self, check: &Check) -> String {
        let (state, named) = self.state(check.call);
        let memfd = match state
            .encode()
            .map_err(|error| chain(&error))
            .and_then(|bytes| memfd::seal("keeper-state", &bytes).map_err(|e| e.to_string()))
        {
            Ok(memfd) => memfd,
            Err(detail) => return format!("the state cannot be handed over: {detail}"),
        };
        let mut arguments = vec![OsString::from("noded-keeper"), OsString::from("keeper")];
        for (option, value) in [
            ("--runtime-dir", self.paths.root().as_os_str()),
            ("--cgroup-base", self.cgroup_base.as_os_str()),
            (TAKE_OVER, OsStr::new(&memfd.as_raw_fd().to_string())),
        ] {
            arguments.extend([option.into(), value.to_owned()]);
        }
        let arguments = c_strings(arguments);
        let environment = c_strings(std::env::vars_os().map(|(name, value)| {
            let mut variable = name;
            variable.push("=");
            variable.push(value);
            variable
        }));
        tell!(
            "keeper: becomes another program with {} runs",
            state.runs.len()
        );
        let all = named.iter().copied().chain([memfd.as_fd()]);
        let outcome = set_all(all.clone(), FdFlags::empty()).and_then(|()| {
            // Signals that are blocked stay so, which the standard library's exec would undo.
            nix::unistd::fexecve(&check.program, &arguments, &environment)
                .map(|never| match never {})
                .map_err(|errno| format!("the program cannot be executed: {errno}"))
        });
        // Still here: these are ours again, and no task's.
        let restored = set_all(all, FdFlags::CLOEXEC);
        outcome.and(restored).err().unwrap_or_default()
    }

    /// Everything, and the descriptors that it names.
    pub(super) fn state(&self, call: Option<CallId>) -> (State, Vec<BorrowedFd<'_>>) {
        let mut named = Named::default();
        let children: BTreeMap<&TaskKey, i32> =
            self.by_pid.iter().map(|(pid, key)| (key, *pid)).collect();
        let runs = self.custody.runs().filter_map(|(key, run)| {
            let handles = self.handles.get(key)?;
            let child = children.get(key).copied();
            Some(run_state(key, run, handles, child, &mut named))
        });
        let runs = runs.collect();
        let session = self
            .session
            .as_ref()
            .filter(|session| session.queue().map(Vec::len).sum::<usize>() <= QUEUE_BYTES_MAX)
            .filter(|session| !session.has_descriptors());
        let session = session.map(|session| SessionState {
            socket: named.add(session.socket()),
            protocol: session.protocol(),
            queue: session.queue().cloned().collect(),
            call,
        });
        let lingering = self.lingering.iter().map(|(until, stream)| LingeringState {
            until: *until,
            stream: named.add(stream),
        });
        let lingering = lingering.collect();
        let held = self.sockets.iter().map(|(owner, socket)| HeldState {
            owner: owner.clone(),
            socket: named.add(socket),
        });
        let held = held.collect();
        let lease = |(alloc, held): (&str, Held)| LeaseState {
            alloc: alloc.to_owned(),
            until: held.until,
            recorded: held.recorded,
        };
        let state = State {
            lock: named.add(self.lock.file()),
            listener: named.add(&self.listener),
            session,
            runs,
            floors: self.custody.floors().collect(),
            leases: self.custody.leases().map(lease).collect(),
            lingering,
            held,
        };
        (state, named.0)
    }
}

fn run_state<'a>(
    key: &TaskKey,
    run: &Run,
    handles: &'a Handles,
    child: Option<i32>,
    named: &mut Named<'a>,
) -> RunState {
    let Handles {
        number: _,
        pidfd,
        report,
        // Opened anew.
        tree: _,
        streams,
        oom_kills_at_start,
        plan,
        status_until,
    } = handles;
    RunState {
        key: key.clone(),
        run: run.clone(),
        child,
        pidfd: pidfd.as_ref().map(|pidfd| named.add(pidfd)),
        report: report.as_ref().map(|report| named.add(report)),
        streams: streams.iter().map(|stream| named.add(stream)).collect(),
        oom_kills_at_start: *oom_kills_at_start,
        plan: plan.clone(),
        status_until: *status_until,
    }
}

fn set_all<'a>(
    descriptors: impl Iterator<Item = BorrowedFd<'a>>,
    flags: FdFlags,
) -> Result<(), String> {
    for descriptor in descriptors {
        fcntl_setfd(descriptor, flags).map_err(|errno| format!("a descriptor: {errno}"))?;
    }
    Ok(())
}

/// Of words that this process was started with, or of paths: none of them holds a NUL.
fn c_strings(words: impl IntoIterator<Item = OsString>) -> Vec<CString> {
    words
        .into_iter()
        .filter_map(|word| CString::new(word.as_bytes()).ok())
        .collect()
}
