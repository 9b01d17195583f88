//! The first thing that a keeper does that was another program before.

use super::state::{
    HeldState, LeaseState, LingeringState, RunState, STATE_BYTES_MAX, SessionState, State,
};
use crate::keeper::custody::Phase;
use crate::keeper::session::Session;
use crate::keeper::{CLIENT, Keeper, Watch, now};
use crate::lock::Lock;
use crate::memfd;
use crate::protocol::Lease;
use crate::report::tell;
use crate::sys::inherit;
use protocol_error_chain::chain;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

/// A state with its descriptors, ready to go on with.
#[derive(Debug)]
pub(in crate::keeper) struct Inheritance {
    pub(in crate::keeper) lock: Lock,
    pub(in crate::keeper) listener: OwnedFd,
    pub(in crate::keeper) left: (State, BTreeMap<RawFd, OwnedFd>),
}

/// Reads what the program before left. Where that is of no use every inherited descriptor is
/// closed, and the records tell what there is: as after a crash, except that the tasks still are
/// this process's children.
pub(in crate::keeper) fn inherit(memfd: RawFd) -> Option<Inheritance> {
    match try_inherit(memfd) {
        Ok(inheritance) => Some(inheritance),
        Err(detail) => {
            tell!("keeper: the state of the keeper before is lost: {detail}; going by its records");
            inherit::close_rest();
            None
        }
    }
}

fn try_inherit(memfd: RawFd) -> Result<Inheritance, String> {
    let failed = |number: RawFd| move |errno: Errno| format!("descriptor {number}: {errno}");
    let memfd = inherit::adopt(memfd).map_err(failed(memfd))?;
    let bytes = memfd::read_sealed(memfd.as_fd(), STATE_BYTES_MAX).map_err(|e| chain(&e))?;
    let state = State::decode(&bytes).map_err(|error| chain(&error))?;
    let mut descriptors = BTreeMap::new();
    for number in state.descriptors() {
        let descriptor = inherit::adopt(number).map_err(failed(number))?;
        descriptors.insert(number, descriptor);
    }
    let mut take = |number: RawFd| {
        let missing = || format!("descriptor {number} is missing");
        descriptors.remove(&number).ok_or_else(missing)
    };
    let (lock, listener) = (take(state.lock)?, take(state.listener)?);
    Ok(Inheritance {
        lock: Lock::inherited(lock),
        listener,
        left: (state, descriptors),
    })
}

impl Keeper {
    /// Goes on where the program before stopped.
    pub(in crate::keeper) fn go_on(&mut self, state: State, mut held: BTreeMap<RawFd, OwnedFd>) {
        let State {
            lock: _,
            listener: _,
            session,
            runs,
            floors,
            leases,
            lingering,
            held: sockets,
        } = state;
        for floor in floors {
            let effects = self.custody.raise_floor(&floor);
            self.execute(effects, now());
        }
        for run in runs {
            self.take_run(run, &mut held);
        }
        for LeaseState {
            alloc,
            until,
            recorded,
        } in leases
        {
            self.custody
                .set_lease(&Lease { alloc, until }, Some(recorded));
        }
        for LingeringState { until, stream } in lingering {
            if let Some(stream) = held.remove(&stream) {
                self.lingering.keep(until, stream);
            }
        }
        for HeldState { owner, socket } in sockets {
            if let Some(socket) = held.remove(&socket) {
                self.sockets.keep(owner, socket);
            }
        }
        if let Some(session) = session {
            self.take_session(session, &mut held);
        }
        // Children that ended while SIGCHLD was blocked.
        self.reap();
    }

    fn take_run(&mut self, state: RunState, held: &mut BTreeMap<RawFd, OwnedFd>) {
        let RunState {
            key,
            run,
            child,
            pidfd,
            report,
            streams,
            oom_kills_at_start,
            plan,
            status_until,
        } = state;
        let mut take = |number: Option<RawFd>| number.and_then(|number| held.remove(&number));
        let mut handles = self.new_handles(&key);
        handles.pidfd = take(pidfd);
        handles.report = take(report);
        handles.streams = streams.into_iter().filter_map(|s| take(Some(s))).collect();
        handles.oom_kills_at_start = oom_kills_at_start;
        handles.plan = plan;
        handles.status_until = status_until;
        let (number, phase) = (handles.number, run.phase.clone());
        let watches = [
            handles.report.as_ref().map(|report| {
                let flags = EventFlags::IN;
                self.poll(report.as_fd(), number, Watch::Report, flags)
            }),
            match (&handles.pidfd, child) {
                (Some(pidfd), None) => {
                    // One that has ended is only waited for to be reaped.
                    let flags = match status_until {
                        None => EventFlags::IN,
                        Some(_) => EventFlags::empty(),
                    };
                    Some(self.poll(pidfd.as_fd(), number, Watch::Adopted, flags))
                }
                _ => None,
            },
        ];
        for errno in watches.into_iter().flatten().filter_map(Result::err) {
            tell!("keeper: {key}: it cannot be polled any more: {errno}");
        }
        let is_watched_by_tree = matches!(phase, Phase::Ending(_))
            || (matches!(phase, Phase::Running(_)) && handles.pidfd.is_none());
        self.handles.insert(key.clone(), handles);
        if let Some(child) = child {
            self.by_pid.insert(child, key.clone());
        }
        let effects = self.custody.insert(&key, run);
        self.execute(effects, now());
        if is_watched_by_tree {
            self.watch_tree(&key);
        }
    }

    fn poll(
        &self,
        descriptor: BorrowedFd<'_>,
        number: u64,
        watch: Watch,
        flags: EventFlags,
    ) -> Result<(), Errno> {
        let token = EventData::new_u64(number * 4 + watch as u64);
        epoll::add(&self.epoll, descriptor, token, flags)
    }

    fn take_session(&mut self, state: SessionState, held: &mut BTreeMap<RawFd, OwnedFd>) {
        let SessionState {
            socket,
            protocol,
            queue,
            call,
        } = state;
        let Some(socket) = held.remove(&socket) else {
            return;
        };
        let token = EventData::new_u64(CLIENT);
        if let Err(errno) = epoll::add(&self.epoll, &socket, token, EventFlags::IN) {
            return tell!("keeper: the client cannot be polled any more: {errno}");
        }
        self.session = Some(Session::inherited(socket, protocol, queue));
        self.renew_interest();
        if let Some(call) = call {
            let welcome = Self::welcome(protocol.unwrap_or(1));
            self.respond(call, welcome);
        }
    }
}
