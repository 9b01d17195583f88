//! Rounds of access, each with a token of its own.
//!
//! ```text
//!   operator   make --acknowledged--> (hold) --revoke--acknowledged--> (after) over
//!   users      one for each server:   reads and writes  ..  and on  ..
//!   waiters    one for each server:   a query that nothing ends but the loss of its right
//! ```
//!
//! Users and waiters go on through faults: a server that does not run is asked when it does again.
//! An answer of a process that was killed meanwhile reached no client and does not count.

mod operator;
mod user;
mod waiter;

use std::sync::Arc;
use std::time::Duration;

use hack_sim::rng::Rng;
use tokio::sync::watch;
use tokio::time::sleep;

use self::operator::Operator;
use self::user::User;
use self::waiter::Waiter;
use super::doors::Doors;
use crate::eyes::Eyes;
use crate::net::Machine;
use crate::schedule::SERVERS;
use crate::schedule::access::Round;
use crate::tokens::{Standing, TokenNumber};

/// The secret of the first management token: the operators ask for it.
pub(super) const MANAGER_SECRET: &str = "6f1d3a52-0f4e-4b0a-9a37-1f0c5c0d7a11";
/// How long users go on after the revocation was acknowledged.
const AFTER: Duration = Duration::from_secs(3);
/// How long they have the token at most before it is taken away, in milliseconds.
const HOLD_MS_MAX: u64 = 2_500;

/// The token of a round, and the ways to the servers: every part of it has them.
#[derive(Debug, Clone)]
struct Shared {
    token: TokenNumber,
    eyes: Arc<Eyes>,
    doors: Doors,
}

/// A token as its holder knows it.
#[derive(Debug, Clone)]
struct Token {
    accessor: String,
    secret: String,
    /// The id of its role, where it has its right by one.
    role: Option<String>,
}

/// Carries a round out, from the token's making to the last request with it.
pub(super) async fn run(
    round: Round,
    token: TokenNumber,
    (eyes, doors): (Arc<Eyes>, Doors),
    mut rng: Rng,
) {
    let shared = Shared { token, eyes, doors };
    let operator = Operator::new(shared.clone(), round);
    let Some(held) = operator.make(&mut rng).await else {
        shared.eyes.note(|| format!("token {token} was not made"));
        return;
    };
    let standing = watch::Sender::new(Standing::Made);
    shared.eyes.token_stands(token, Standing::Made);
    for server in 0..SERVERS {
        let user = User::new(&shared, server, &held, standing.subscribe());
        tokio::spawn(user.run(Rng::new(rng.draw(), 0)));
        let waiter = Waiter::new(&shared, server, &held, standing.subscribe());
        tokio::spawn(waiter.run());
    }
    sleep(Duration::from_millis(rng.between(200, HOLD_MS_MAX))).await;
    let stands = |now: Standing| {
        shared.eyes.token_stands(token, now);
        standing.send_replace(now);
    };
    stands(Standing::Revoking);
    if let Some(index) = operator.revoke(&held).await {
        stands(Standing::Revoked { index });
        sleep(AFTER).await;
    }
    shared
        .eyes
        .note(|| format!("token {token} is not used any more"));
}

/// The address of a client's connection to a server, its own for each token.
fn address(token: TokenNumber, server: Machine) -> std::net::IpAddr {
    let [.., high, low] = token.to_be_bytes();
    [10, 1 + server, high, low].into()
}
