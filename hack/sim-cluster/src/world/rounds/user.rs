//! A user of a round's token at one server: reads and writes, from the token's making until a while
//! after its revocation was acknowledged.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use hack_sim::rng::Rng;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Shared, Token, address};
use crate::eyes::Observation;
use crate::net::Machine;
use crate::tokens::{Standing, TokenUse, Use};
use crate::world::http::{Client, Refused};

/// The pauses between two requests, in milliseconds. After a revocation they stay below the budget
/// of refused credentials: 20 at once and 5 a second.
const PAUSE_MS_MIN: u64 = 50;
const PAUSE_MS_MAX: u64 = 500;

#[derive(Debug)]
pub(super) struct User {
    shared: Shared,
    server: Machine,
    client: Client,
    standing: watch::Receiver<Standing>,
    /// Pools that were asked for.
    pools: u32,
}

impl User {
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
            pools: 0,
        }
    }

    pub(super) async fn run(mut self, mut rng: Rng) {
        while self.standing.has_changed().is_ok() {
            self.standing.mark_unchanged();
            let what = if rng.chance(500) {
                Use::Read
            } else {
                Use::Write
            };
            self.request(what).await;
            let pause = Duration::from_millis(rng.between(PAUSE_MS_MIN, PAUSE_MS_MAX));
            // A follower lags for a moment only: the next request comes with the news.
            tokio::select! {
                () = sleep(pause) => {}
                _ = self.standing.changed() => {}
            }
        }
    }

    async fn request(&mut self, what: Use) {
        let Some(door) = self.shared.doors.at(self.server) else {
            return;
        };
        let asked = *self.standing.borrow();
        let answered = match what {
            Use::Read => self.client.ask(&door, Method::GET, "/v1/jobs", None).await,
            Use::Write => {
                let pool = self.pool(asked);
                let path = format!("/v1/node/pool/{pool}");
                let body = json!({ "Name": pool });
                self.client
                    .ask(&door, Method::PUT, &path, Some(&body))
                    .await
            }
        };
        if !door.is_open() {
            return;
        }
        let served = match answered {
            Ok(_) => true,
            Err(refused) if refused.status == StatusCode::FORBIDDEN => false,
            Err(refused) if super::operator::may_pass(refused.status) => return,
            Err(refused) => return self.not_understood(what, &refused),
        };
        self.shared.eyes.see(&Observation::TokenUsed(TokenUse {
            server: self.server,
            token: self.shared.token,
            what,
            asked,
            answered: *self.standing.borrow(),
            served,
        }));
    }

    /// The name of a pool that nobody asked for before.
    fn pool(&mut self, asked: Standing) -> String {
        self.pools += 1;
        let (token, server) = (self.shared.token, self.server);
        let pool = format!("round-{token}-{server}-{}", self.pools);
        self.shared.eyes.see(&Observation::PoolAsked {
            token,
            asked,
            pool: &pool,
        });
        pool
    }

    fn not_understood(&self, what: Use, refused: &Refused) {
        let Refused { status, why } = refused;
        let source = "README.md, HTTP API: the shapes of Nomad's";
        let what = format!("{what:?}: {status}: {why}");
        self.shared
            .eyes
            .fail("requests_are_understood", source, what);
    }
}
