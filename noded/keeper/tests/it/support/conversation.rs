//! A client that asks, waits for the answer, and remembers what was told meanwhile.

use super::PATIENCE;
use noded_keeper::client::{Connection, seal_plan};
use noded_keeper::protocol::{
    Event, Exit, Message, OsSignal, Request, Response, SpawnRequest, StopMethod, TaskKey, TaskPhase,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};

/// The questions that every test asks.
pub(crate) trait Conversation {
    fn ask(&mut self, request: &Request) -> Response;
    fn ask_with(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Response;
    fn spawn(&mut self, request: SpawnRequest, spec: &isolation::SandboxSpec) -> Response;
    fn event(&mut self) -> Event;
    /// Starts a task and waits until its program runs.
    fn start(&mut self, request: SpawnRequest, spec: &isolation::SandboxSpec) -> u32;
    fn exit(&mut self, key: &TaskKey) -> Exit;
    /// Asks for a stop by SIGTERM, and for the kill so much later.
    fn stop(&mut self, key: &TaskKey, kill_after_ms: u64) -> StopMethod;
    /// Every run that keeper knows, in as many pages as it takes.
    fn list(&mut self) -> BTreeMap<TaskKey, TaskPhase>;
    /// Kills a run, hears of its end, and lets it go.
    fn put_down(&mut self, key: &TaskKey) -> Exit;
}

thread_local! {
    /// Events that came before the response that was waited for.
    static EARLY: RefCell<VecDeque<Event>> = const { RefCell::new(VecDeque::new()) };
}

impl Conversation for Connection {
    fn ask(&mut self, request: &Request) -> Response {
        self.ask_with(request, &[])
    }

    fn ask_with(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Response {
        let asked = self.send(request, descriptors).unwrap();
        loop {
            match self.recv_within(PATIENCE).unwrap().expect("keeper answers") {
                Message::Response { call, response } => {
                    assert_eq!(call, asked);
                    return response;
                }
                Message::Event(event) => EARLY.with_borrow_mut(|early| early.push_back(event)),
            }
        }
    }

    fn spawn(&mut self, request: SpawnRequest, spec: &isolation::SandboxSpec) -> Response {
        let plan = seal_plan(&isolation::plan(spec).unwrap()).unwrap();
        self.ask_with(&Request::Spawn(request), &[plan.as_fd()])
    }

    fn event(&mut self) -> Event {
        if let Some(event) = EARLY.with_borrow_mut(VecDeque::pop_front) {
            return event;
        }
        match self
            .recv_within(PATIENCE)
            .unwrap()
            .expect("keeper tells what happens")
        {
            Message::Event(event) => event,
            Message::Response { response, .. } => panic!("nobody asked: {response:?}"),
        }
    }

    fn start(&mut self, request: SpawnRequest, spec: &isolation::SandboxSpec) -> u32 {
        let wanted = request.key.clone();
        assert_eq!(self.spawn(request, spec), Response::Accepted);
        match self.event() {
            Event::Started { key, pid, .. } if key == wanted => pid,
            other => panic!("expected the start of {wanted}, not {other:?}"),
        }
    }

    fn exit(&mut self, wanted: &TaskKey) -> Exit {
        match self.event() {
            Event::Exited { key, exit } if key == *wanted => exit,
            other => panic!("expected the exit of {wanted}, not {other:?}"),
        }
    }

    fn stop(&mut self, key: &TaskKey, kill_after_ms: u64) -> StopMethod {
        let request = Request::Stop {
            key: key.clone(),
            signal: OsSignal(libc::SIGTERM),
            kill_after_ms,
        };
        match self.ask(&request) {
            Response::Stopping { method } => method,
            other => panic!("expected a stop of {key}, not {other:?}"),
        }
    }

    fn list(&mut self) -> BTreeMap<TaskKey, TaskPhase> {
        let asked = self.send(&Request::List, &[]).unwrap();
        let mut found = BTreeMap::new();
        loop {
            match self.recv_within(PATIENCE).unwrap().expect("a page") {
                Message::Response {
                    call,
                    response: Response::Listing { tasks, more },
                } if call == asked => {
                    found.extend(tasks.into_iter().map(|task| (task.key, task.phase)));
                    if !more {
                        return found;
                    }
                }
                Message::Event(event) => EARLY.with_borrow_mut(|early| early.push_back(event)),
                other => panic!("only pages are expected, not {other:?}"),
            }
        }
    }

    fn put_down(&mut self, key: &TaskKey) -> Exit {
        let kill = Request::Kill { key: key.clone() };
        assert_eq!(self.ask(&kill), Response::Accepted);
        let exit = self.exit(key);
        let known = Request::Acknowledge { key: key.clone() };
        assert_eq!(self.ask(&known), Response::Accepted);
        exit
    }
}
