//! A server's own loops, watched: one that is gone, by a panic or by a return, takes the server
//! with it. Half a server is worse than none: a leader whose loop is dead keeps its leadership by
//! heartbeats and schedules nothing, and nobody is told to restart it.

use std::collections::BTreeMap;
use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::{Id, JoinError, JoinSet};

/// The loops that run. Dropping this ends them.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    running: JoinSet<Finish>,
    names: BTreeMap<Id, &'static str>,
}

async fn for_ever(work: impl Future<Output = ()>) -> Finish {
    work.await;
    Finish::Early
}

/// How a loop that did not panic ended.
#[derive(Debug)]
enum Finish {
    /// It was to go on for as long as the server does.
    Early,
    /// What it was there for is done.
    Done,
    /// It cannot be done.
    Failed(String),
}

impl Loops {
    /// Runs what has to go on for as long as the server does.
    pub(crate) fn spawn(
        &mut self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let handle = self.running.spawn(for_ever(work));
        self.names.insert(handle.id(), name);
    }

    /// The same, on another runtime.
    pub(crate) fn spawn_on(
        &mut self,
        runtime: &Handle,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let handle = self.running.spawn_on(for_ever(work), runtime);
        self.names.insert(handle.id(), name);
    }

    /// Runs what may end once it is done. Its failure is the server's, in its own words.
    pub(crate) fn spawn_once(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let handle = self.running.spawn(async move {
            match work.await {
                Ok(()) => Finish::Done,
                Err(reason) => Finish::Failed(reason),
            }
        });
        self.names.insert(handle.id(), name);
    }

    /// Ends with the first loop that should not have, and says why. Cancel-safe.
    pub(crate) async fn failed(&mut self) -> String {
        loop {
            match self.running.join_next_with_id().await {
                None => std::future::pending::<()>().await,
                Some(Ok((id, finish))) => {
                    let name = self.names.remove(&id).unwrap_or("a loop");
                    match finish {
                        Finish::Done => {}
                        Finish::Early => return format!("{name} ended before the server did"),
                        Finish::Failed(reason) => return reason,
                    }
                }
                Some(Err(error)) => {
                    let name = self.names.remove(&error.id()).unwrap_or("a loop");
                    return format!("{name} panicked: {}", words(error));
                }
            }
        }
    }

    /// Ends all loops.
    pub(crate) async fn shutdown(&mut self) {
        self.running.shutdown().await;
    }
}

/// What a panic said.
fn words(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "it was cancelled".to_owned();
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => match panic.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "no words".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_loop_that_panics_is_named_with_its_words() {
        let mut loops = Loops::default();
        loops.spawn("the steady loop", std::future::pending());
        loops.spawn("the broken loop", async { panic!("out of luck") });
        assert_eq!(
            loops.failed().await,
            "the broken loop panicked: out of luck"
        );
    }

    #[tokio::test]
    async fn a_loop_that_returns_is_a_failure_and_work_that_is_done_is_none() {
        let mut loops = Loops::default();
        loops.spawn_once("forming", async { Ok(()) });
        loops.spawn("the leader's loop", async {});
        assert_eq!(
            loops.failed().await,
            "the leader's loop ended before the server did"
        );
    }

    #[tokio::test]
    async fn work_that_cannot_be_done_fails_in_its_own_words() {
        let mut loops = Loops::default();
        loops.spawn_once("forming", async { Err("no way".to_owned()) });
        assert_eq!(loops.failed().await, "no way");
    }
}
