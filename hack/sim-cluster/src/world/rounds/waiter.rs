//! A client that waits at one server with a round's token: nothing ends its query but the loss of
//! its right, the end of the process, or the waiting time.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Shared, Token, address};
use crate::eyes::Observation;
use crate::net::Machine;
use crate::tokens::Standing;
use crate::world::http::Client;

/// An index that no run reaches, and the longest waiting time.
const QUERY: &str = "/v1/jobs?index=1000000000&wait=600s";
/// The pause before a server is asked again that does not run or hears no leader.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Waiter {
    shared: Shared,
    server: Machine,
    client: Client,
    standing: watch::Receiver<Standing>,
}

impl Waiter {
    pub(super) fn new(
        shared: &Shared,
        server: Machine,
        token: &Token,
        standing: watch::Receiver<Standing>,
    ) -> Self {
        Self {
            shared: shared.clone(),
            server,
            client: Client {
                secret: Some(token.secret.clone()),
                address: address(shared.token, server),
            },
            standing,
        }
    }

    pub(super) async fn run(self) {
        while self.standing.has_changed().is_ok() && *self.standing.borrow() == Standing::Made {
            self.wait_once().await;
            sleep(PAUSE).await;
        }
    }

    async fn wait_once(&self) {
        let Some(door) = self.shared.doors.at(self.server) else {
            return;
        };
        let (eyes, token, server) = (&self.shared.eyes, self.shared.token, self.server);
        eyes.token_waits(token, server, true);
        let answered = tokio::select! {
            answered = self.client.ask(&door, Method::GET, QUERY, None) => Some(answered),
            () = door.closed() => None,
        };
        eyes.token_waits(token, server, false);
        let Some(answered) = answered.filter(|_| door.is_open()) else {
            return;
        };
        match answered {
            Ok(_) => eyes.see(&Observation::WaitAnswered {
                server,
                token,
                applied: door.cluster.snapshot().index(),
            }),
            Err(refused) if refused.status == StatusCode::FORBIDDEN => {
                eyes.note(|| format!("s{server} ends the query that waits with token {token}"));
            }
            // It hears no leader, or has no place: asked again.
            Err(_) => {}
        }
    }
}
