//! A client that asks, waits for the answer, and remembers what was told meanwhile.

use super::PATIENCE;
use noded_keeper::client::{Connection, seal_plan};
use noded_keeper::protocol::{Event, Exit, Message, Request, Response, SpawnRequest, TaskKey};
use std::cell::RefCell;
use std::collections::VecDeque;
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
}
