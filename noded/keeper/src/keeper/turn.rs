//! One turn of keeper: wait, take what came, do what is due.

use super::custody::Now;
use super::handover::Check;
use super::session::Session;
use super::timer::now;
use super::{CLIENT, Course, Keeper, KeeperError, LISTENER, SIGNALS, TIMER};
use crate::protocol::BootNanos;
use crate::report::tell;
use crate::signals;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

const EVENTS_MAX: usize = 256;
/// How often lingering streams are looked at.
const TICK: BootNanos = BootNanos(1_000_000_000);

impl Keeper {
    pub(super) fn serve(&mut self) -> Result<(), KeeperError> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            let next = self.next_deadline();
            self.timer.arm(next).map_err(KeeperError::Timer)?;
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(KeeperError::Poll(errno)),
            }
            for event in &events {
                if self.on_event(event.data.u64(), event.flags)? == Course::End {
                    self.close();
                    return Ok(());
                }
            }
            self.on_time(now());
        }
    }

    fn on_event(&mut self, token: u64, flags: EventFlags) -> Result<Course, KeeperError> {
        match token {
            LISTENER => self.accept(),
            TIMER => self.timer.rang(),
            SIGNALS => return self.on_signal(),
            CLIENT => return self.on_client(flags),
            _ => self.on_run_event(token, flags),
        }
        Ok(Course::Continue)
    }

    fn on_signal(&mut self) -> Result<Course, KeeperError> {
        use nix::sys::signal::Signal;
        let mut course = Course::Continue;
        while let Some(signal) = signals::take(&self.signals).map_err(KeeperError::Signals)? {
            if signal == Signal::SIGCHLD {
                continue;
            }
            tell!(
                "keeper: asked to end; {} runs go on without it",
                self.custody.run_count()
            );
            course = Course::End;
        }
        self.reap();
        Ok(course)
    }

    fn on_time(&mut self, now: Now) {
        let effects = self.custody.on_time(now);
        self.execute(effects, now);
        self.give_up_on_statuses(now);
        if let Some(check) = &mut self.check {
            check.on_time(now.boot);
        }
        if now.boot >= self.next_tick {
            self.next_tick = now.boot.plus(TICK);
            self.lingering.tick(now.boot);
        }
    }

    fn next_deadline(&self) -> Option<BootNanos> {
        let statuses = self
            .handles
            .values()
            .filter_map(|handles| handles.status_until);
        let tick = (!self.lingering.is_empty()).then_some(self.next_tick);
        let check = self.check.as_ref().and_then(Check::next_deadline);
        let next = [self.custody.next_deadline(), tick, check];
        next.into_iter().flatten().chain(statuses).min()
    }

    /// The newest client wins: it is a noded that was started anew, or it would not connect.
    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(&self.listener, flags) else {
            return;
        };
        let own = rustix::process::geteuid();
        match rustix::net::sockopt::socket_peercred(&socket) {
            Ok(peer) if peer.uid == own => {}
            Ok(_) | Err(_) => return tell!("keeper: a client of another user was turned away"),
        }
        let token = EventData::new_u64(CLIENT);
        self.session = None;
        if let Some(check) = &mut self.check {
            check.forget_client();
        }
        match epoll::add(&self.epoll, &socket, token, EventFlags::IN) {
            Ok(()) => {
                self.session = Some(Session::new(socket));
                self.renew_interest();
            }
            Err(errno) => tell!("keeper: a client cannot be polled: {errno}"),
        }
    }

    /// Removes the socket, so that a client finds nobody instead of waiting.
    fn close(&mut self) {
        self.session = None;
        let _ = rustix::fs::unlink(self.paths.socket());
    }
}
