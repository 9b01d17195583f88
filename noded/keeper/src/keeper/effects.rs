//! Does what custody decided. Nothing here decides; what fails is told, and the next event or the
//! next keeper meets the true state.

use super::custody::{Effect, Now};
use super::records::{Record, RecordState};
use super::session::Fate;
use super::{Keeper, Watch};
use crate::protocol::{Event, Message, TaskKey};
use crate::report::tell;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::AsFd;

impl Keeper {
    pub(super) fn execute(&mut self, effects: Vec<Effect>, now: Now) {
        for effect in effects {
            match effect {
                Effect::Persist(key) => self.persist(&key),
                Effect::KillTree(key) => self.kill_tree(&key),
                Effect::WatchTree(key) => self.watch_tree(&key),
                Effect::Settle(key) => self.settle(&key),
                Effect::Release(key) => self.release(&key, now),
                Effect::PersistFloor(key) => self.persist_floor(key),
                Effect::RemoveRecord(key) => self.remove_record(&key),
                Effect::RemoveLease(alloc) => self.remove_lease(&alloc),
                Effect::Send(event) => self.send_event(event),
            }
        }
    }

    fn persist(&self, key: &TaskKey) {
        let Some(run) = self.custody.run(key) else {
            return;
        };
        let state = RecordState::of(&run.phase);
        let (cgroup, fifos) = (run.cgroup.clone(), run.fifos.clone());
        self.write_record(&Record {
            key: key.clone(),
            cgroup,
            fifos,
            state,
        });
    }

    fn persist_floor(&self, key: TaskKey) {
        let state = RecordState::Acknowledged;
        self.write_record(&Record {
            key,
            cgroup: String::new(),
            fifos: Vec::new(),
            state,
        });
    }

    fn write_record(&self, record: &Record) {
        if let Err(errno) = self.records.write(record) {
            tell!(
                "keeper: {}: its record cannot be written: {errno}",
                record.key
            );
        }
    }

    pub(super) fn remove_record(&self, key: &TaskKey) {
        if let Err(errno) = self.records.remove(key) {
            tell!("keeper: {key}: its record cannot be removed: {errno}");
        }
    }

    pub(super) fn remove_lease(&self, alloc: &str) {
        if let Err(errno) = self.records.remove_lease(alloc) {
            tell!("keeper: {alloc}: the record of its lease cannot be removed: {errno}");
        }
    }

    fn kill_tree(&mut self, key: &TaskKey) {
        let Some(run) = self.custody.run(key) else {
            return;
        };
        match self.base.task(&run.cgroup).and_then(|cgroup| cgroup.kill()) {
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => tell!("keeper: {key}: its cgroup cannot be killed: {errno}"),
        }
    }

    pub(super) fn watch_tree(&mut self, key: &TaskKey) {
        let Some(run) = self.custody.run(key) else {
            return;
        };
        let Some(handles) = self.handles.get_mut(key) else {
            return;
        };
        let token = EventData::new_u64(handles.number * 4 + Watch::Tree as u64);
        // The file polls as changed until it is first read, so the first event comes at once and an
        // early end cannot be missed.
        let outcome = self
            .base
            .task(&run.cgroup)
            .and_then(|cgroup| cgroup.watch())
            .and_then(|watch| {
                epoll::add(&self.epoll, watch.as_fd(), token, EventFlags::PRI).map(|()| watch)
            });
        match outcome {
            Ok(watch) => handles.tree = Some(watch),
            // A cgroup that is gone was empty; the deadline brings the end.
            Err(Errno::NOENT) => {}
            Err(errno) => tell!("keeper: {key}: its cgroup cannot be watched: {errno}"),
        }
    }

    fn settle(&mut self, key: &TaskKey) {
        if let Some(handles) = self.handles.get_mut(key) {
            handles.tree = None;
            handles.report = None;
            handles.pidfd = None;
            handles.plan = None;
            handles.status_until = None;
        }
    }

    fn release(&mut self, key: &TaskKey, now: Now) {
        if let Some(handles) = self.handles.remove(key) {
            self.by_number.remove(&handles.number);
            self.lingering.add(handles.streams, now.boot);
        }
    }

    fn send_event(&mut self, event: Event) {
        let Some(session) = &mut self.session else {
            return;
        };
        if session.protocol().is_none() {
            return;
        }
        let fate: Fate = session.send(Message::Event(event));
        self.settle_session(fate);
    }
}
