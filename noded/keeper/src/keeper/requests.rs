//! From a packet to an answer.

use super::custody::{Delivery, Phase, Recording};
use super::process;
use super::session::{Fate, Session};
use super::{CLIENT, Course, Keeper, KeeperError, STEP_VERSIONS, now};
use crate::protocol::{
    AllocAndTask, CallId, LISTING_ENTRIES_MAX, Lease, Message, OsSignal, PROTOCOL_VERSIONS,
    Refusal, Request, Response, StopMethod, TaskKey, TaskReport, VersionRange, decode_from_client,
};
use crate::report::tell;
use crate::seqpacket::{self, Received};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::os::fd::{AsFd, OwnedFd};

/// Packets taken from the client before other descriptors get their turn.
const PACKETS_PER_TURN_MAX: usize = 64;

impl Keeper {
    pub(super) fn on_client(&mut self, flags: EventFlags) -> Result<Course, KeeperError> {
        if flags.contains(EventFlags::OUT) {
            let fate = self.session.as_mut().map_or(Fate::Keep, Session::flush);
            self.settle_session(fate);
        }
        if self.check.is_some() && flags.contains(EventFlags::HUP) {
            self.session = None;
        }
        let mut course = Course::Continue;
        for _ in 0..PACKETS_PER_TURN_MAX {
            // What was checked is what is handed over.
            if self.check.is_some() {
                break;
            }
            let Some(session) = &self.session else { break };
            match seqpacket::receive(session.socket()) {
                Ok(Received::WouldBlock) => break,
                Ok(Received::Packet { bytes, descriptors }) => {
                    if self.on_packet(&bytes, &descriptors)? == Course::End {
                        course = Course::End;
                        break;
                    }
                }
                Ok(Received::TooLarge) => {
                    tell!("keeper: the client sent a packet beyond the limit; disconnecting it");
                    self.session = None;
                }
                Ok(Received::Closed) | Err(_) => self.session = None,
            }
        }
        self.renew_interest();
        Ok(course)
    }

    fn on_packet(&mut self, bytes: &[u8], descriptors: &[OwnedFd]) -> Result<Course, KeeperError> {
        let (call, request) = match decode_from_client(bytes) {
            Ok(decoded) => decoded,
            Err(error) => {
                // Whose request it was is unknown, so this session cannot go on.
                let refusal = Refusal::Malformed {
                    detail: error.to_string(),
                };
                self.respond(CallId(0), Response::Refused(refusal));
                self.session = None;
                return Ok(Course::Continue);
            }
        };
        let protocol = self.session.as_ref().and_then(Session::protocol);
        if protocol.is_none() && !matches!(request, Request::Hello { .. }) {
            self.respond(call, Response::Refused(Refusal::NotGreeted));
            return Ok(Course::Continue);
        }
        self.on_request(call, request, descriptors)
    }

    fn on_request(
        &mut self,
        call: CallId,
        request: Request,
        descriptors: &[OwnedFd],
    ) -> Result<Course, KeeperError> {
        let outcome = match request {
            Request::Hello { protocol, steps: _ } => self.greet(protocol),
            Request::Spawn(spawn) => self
                .spawn(&spawn, descriptors)?
                .map(|()| Response::Accepted),
            Request::Signal { key, signal } => {
                self.signal(&key, signal).map(|()| Response::Accepted)
            }
            Request::Stop {
                key,
                signal,
                kill_after_ms,
            } => self
                .stop(&key, signal, kill_after_ms)
                .map(|method| Response::Stopping { method }),
            Request::Kill { key } => self.custody.kill(&key).map(|effects| {
                self.execute(effects, now());
                Response::Accepted
            }),
            Request::List => {
                self.list(call);
                return Ok(Course::Continue);
            }
            Request::Acknowledge { key } => self.custody.acknowledge(&key).map(|effects| {
                self.execute(effects, now());
                Response::Accepted
            }),
            Request::Forget { alloc } => {
                self.sockets.drop_alloc(&alloc);
                let effects = self.custody.forget(&alloc);
                self.execute(effects, now());
                Ok(Response::Accepted)
            }
            Request::Shutdown => match self.custody.run_count() {
                0 => {
                    self.respond(call, Response::Accepted);
                    return Ok(Course::End);
                }
                runs => Err(Refusal::RunsRemain { runs }),
            },
            Request::Ping => Ok(Response::Pong {
                runs: self.custody.run_count(),
            }),
            Request::Upgrade => match self.upgrade(call, descriptors) {
                Ok(()) => return Ok(Course::Continue),
                Err(refusal) => Err(refusal),
            },
            Request::ExtendLeases { leases } => {
                self.extend_leases(&leases).map(|()| Response::Accepted)
            }
            Request::EndLease { alloc } => {
                let effects = self.custody.end_lease(&alloc);
                self.execute(effects.into_iter().collect(), now());
                Ok(Response::Accepted)
            }
            Request::Hold { owner } => {
                let held = self.sockets.hold(owner, descriptors);
                held.map(|()| Response::Accepted)
            }
            Request::Take { after } => {
                self.give_sockets(call, after.as_ref());
                return Ok(Course::Continue);
            }
            Request::Drop { alloc } => {
                self.sockets.drop_alloc(&alloc);
                Ok(Response::Accepted)
            }
        };
        self.respond(call, outcome.unwrap_or_else(Response::Refused));
        Ok(Course::Continue)
    }

    fn greet(&mut self, client: VersionRange) -> Result<Response, Refusal> {
        let keeper = PROTOCOL_VERSIONS;
        let protocol = client
            .best_common(keeper)
            .ok_or(Refusal::NoCommonVersion { keeper })?;
        if let Some(session) = &mut self.session {
            session.agree_on(protocol);
        }
        Ok(Self::welcome(protocol))
    }

    pub(super) fn welcome(protocol: u32) -> Response {
        Response::Welcome {
            protocol,
            steps: STEP_VERSIONS,
            keeper_pid: std::process::id(),
        }
    }

    /// A lease counts only once there is a record of it; after that the record may lag behind.
    fn extend_leases(&mut self, leases: &[Lease]) -> Result<(), Refusal> {
        self.custody.check_leases(leases)?;
        let mut first: Vec<&Lease> = Vec::new();
        let mut recorded = Vec::with_capacity(leases.len());
        for lease in leases {
            let recording = self.custody.lease_recording(lease);
            if recording == Recording::NotDue {
                recorded.push(None);
                continue;
            }
            match self.records.write_lease(lease) {
                Ok(()) => recorded.push(Some(lease.until)),
                Err(errno) if recording == Recording::First => {
                    for lease in first {
                        self.remove_lease(&lease.alloc);
                    }
                    return Err(Refusal::Lease {
                        alloc: lease.alloc.clone(),
                        detail: format!("its record cannot be written: {errno}"),
                    });
                }
                Err(errno) => {
                    tell!(
                        "keeper: {}: the record of its lease is behind: {errno}",
                        lease.alloc
                    );
                    recorded.push(None);
                }
            }
            if recording == Recording::First {
                first.push(lease);
            }
        }
        for (lease, recorded) in leases.iter().zip(recorded) {
            self.custody.set_lease(lease, recorded);
        }
        Ok(())
    }

    fn signal(&mut self, key: &TaskKey, signal: OsSignal) -> Result<(), Refusal> {
        self.custody.check_signal(key)?;
        self.deliver(key, signal)
    }

    fn stop(
        &mut self,
        key: &TaskKey,
        signal: OsSignal,
        kill_after_ms: u64,
    ) -> Result<StopMethod, Refusal> {
        let run = self.custody.run(key).ok_or(Refusal::UnknownTask)?;
        let delivery = match &run.phase {
            Phase::Running(running) => process::delivery(running.pid, signal),
            Phase::Starting { .. } | Phase::Failing { .. } | Phase::Ending(_) | Phase::Ended(_) => {
                Delivery::Delivered
            }
        };
        let is_running = matches!(run.phase, Phase::Running(_));
        if is_running && delivery == Delivery::Delivered {
            // A bad signal is refused before a deadline runs.
            self.deliver(key, signal)?;
        }
        let now = now();
        let (method, effects) = self.custody.stop(key, delivery, kill_after_ms, now)?;
        self.execute(effects, now);
        Ok(method)
    }

    fn deliver(&self, key: &TaskKey, signal: OsSignal) -> Result<(), Refusal> {
        let pidfd = self
            .handles
            .get(key)
            .and_then(|handles| handles.pidfd.as_ref());
        let pidfd = pidfd.ok_or(Refusal::UnknownTask)?;
        match process::send_signal(pidfd.as_fd(), signal) {
            // Ended, but not reaped by us yet: its exit is about to be told.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(Refusal::Signal {
                signal: signal.0,
                errno: errno.raw_os_error(),
            }),
        }
    }

    fn list(&mut self, call: CallId) {
        let reports: Vec<TaskReport> = self.custody.reports().collect();
        let mut pages = reports.chunks(LISTING_ENTRIES_MAX).peekable();
        if pages.peek().is_none() {
            return self.respond(
                call,
                Response::Listing {
                    tasks: Vec::new(),
                    more: false,
                },
            );
        }
        while let Some(page) = pages.next() {
            let more = pages.peek().is_some();
            self.respond(
                call,
                Response::Listing {
                    tasks: page.to_vec(),
                    more,
                },
            );
        }
    }

    fn give_sockets(&mut self, call: CallId, after: Option<&AllocAndTask>) {
        let (owners, descriptors, more) = self.sockets.page(after);
        let response = Response::Held { owners, more };
        let message = Message::Response { call, response };
        let fate = self
            .session
            .as_mut()
            .map_or(Fate::Keep, |s| s.send_with(message, descriptors));
        self.settle_session(fate);
    }

    pub(super) fn respond(&mut self, call: CallId, response: Response) {
        let fate = self
            .session
            .as_mut()
            .map_or(Fate::Keep, |s| s.respond(call, response));
        self.settle_session(fate);
    }

    pub(super) fn settle_session(&mut self, fate: Fate) {
        match fate {
            Fate::Keep => self.renew_interest(),
            Fate::Drop => self.session = None,
        }
    }

    pub(super) fn renew_interest(&mut self) {
        let Some(session) = &self.session else { return };
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.check.is_none());
        flags.set(EventFlags::OUT, session.waits_to_send());
        let token = EventData::new_u64(CLIENT);
        if let Err(errno) = epoll::modify(&self.epoll, session.socket(), token, flags) {
            tell!("keeper: the client cannot be polled any more: {errno}");
            self.session = None;
        }
    }
}
