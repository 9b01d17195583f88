//! What may be asked of keeper.

use std::os::fd::OwnedFd;

use noded_keeper::protocol::{
    Event, LEASES_PER_REQUEST_MAX, Lease, Refusal, Request, Response, TaskKey,
};
use tokio::sync::{mpsc, oneshot, watch};

use super::{Call, CallError, KeeperHandle, Sent};

/// Events of one process inside a task that wait for whoever asked for it.
const SESSION_EVENTS_MAX: usize = 16;

/// The answer that a request waits for.
#[derive(Debug)]
pub struct Answer(oneshot::Receiver<Result<Response, Refusal>>);

impl Answer {
    /// Waits for it.
    ///
    /// # Errors
    /// Where keeper refuses, or noded ends.
    pub async fn wait(self) -> Result<Response, CallError> {
        match self.0.await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(refusal)) => Err(CallError::Refused(refusal)),
            Err(_) => Err(CallError::ShuttingDown),
        }
    }
}

fn call(request: Request, descriptors: Vec<OwnedFd>) -> (Call, Answer) {
    let (answer, result) = oneshot::channel();
    let call = Call {
        request,
        descriptors,
        answer,
        sent: Sent::Once,
    };
    (call, Answer(result))
}

impl KeeperHandle {
    /// Sends a request and waits for its answer, over as many connections as it takes.
    ///
    /// # Errors
    /// Where keeper refuses, or noded ends.
    pub async fn call(
        &self,
        request: Request,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Response, CallError> {
        let (call, answer) = call(request, descriptors);
        self.calls
            .send(call)
            .await
            .map_err(|_| CallError::ShuttingDown)?;
        answer.wait().await
    }

    /// As [`Self::call`], for callers that block: the request has its place before all later ones
    /// when this returns.
    ///
    /// # Errors
    /// Where noded ends.
    pub fn begin(&self, request: Request, descriptors: Vec<OwnedFd>) -> Result<Answer, CallError> {
        let (call, answer) = call(request, descriptors);
        self.calls
            .blocking_send(call)
            .map_err(|_| CallError::ShuttingDown)?;
        Ok(answer)
    }

    /// The number of connections to keeper that there were: a new one may be to another keeper.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.connections.clone()
    }

    /// Hands allocations to keeper with the time until when their tasks may run: at an
    /// allocation's deadline keeper kills its tasks and starts no others, whether noded lives or
    /// not. The newest word counts, so whoever enforces `stop_on_client_after` calls this before
    /// the first start of such an allocation and whenever the control plane was heard.
    ///
    /// # Errors
    /// Where keeper refuses (the leases of earlier requests stand), or noded ends.
    pub async fn extend_leases(&self, leases: &[Lease]) -> Result<(), CallError> {
        for leases in leases.chunks(LEASES_PER_REQUEST_MAX) {
            let leases = leases.to_vec();
            self.call(Request::ExtendLeases { leases }, Vec::new())
                .await?;
        }
        Ok(())
    }

    /// The allocation needs no lease any more; its tasks go on.
    ///
    /// # Errors
    /// Where keeper refuses, or noded ends.
    pub async fn end_lease(&self, alloc: String) -> Result<(), CallError> {
        self.call(Request::EndLease { alloc }, Vec::new())
            .await
            .map(drop)
    }

    /// From now on the events of `key` come here, until [`Self::close_session`].
    pub fn open_session(&self, key: TaskKey) -> mpsc::Receiver<Event> {
        let (events, received) = mpsc::channel(SESSION_EVENTS_MAX);
        self.sessions.lock().insert(key, events);
        received
    }

    /// The opposite.
    pub fn close_session(&self, key: &TaskKey) {
        self.sessions.lock().remove(key);
    }
}
