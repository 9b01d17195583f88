//! How a connection to a server is made: its address, what the server is told, and what a failure
//! says of the server.

use std::time::Duration;

use noded_core::effect::ServerChoice;
use noded_core::event::Ending;
use protocol_error_chain::chain;
use protocol_transport::door::{Wish, WishKind};
use protocol_transport::{ConnectError, Dialed};
use tokio::time::timeout;

use super::{Purpose, SessionContext};

/// How long the name of a server may take to be found.
const RESOLVE_MAX: Duration = Duration::from_secs(2);

/// The purpose of a connection, and how much it is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The purpose.
    pub purpose: Purpose,
    /// Told to its server.
    pub wish: Wish,
}

impl Target {
    /// The core's choice.
    pub fn of(server: &ServerChoice) -> Self {
        let purpose = match server.standby {
            true => Purpose::Standby,
            false => Purpose::Session,
        };
        let wanted = server.wish;
        let kind = match wanted.urgent {
            true => WishKind::Session,
            false => WishKind::Standby,
        };
        let wish = Wish {
            kind,
            waited: wanted.waited,
            patience: wanted.patience,
        };
        Self { purpose, wish }
    }
}

/// Why an attempt came to nothing.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) reason: String,
    pub(super) ending: Ending,
}

impl From<String> for Broken {
    fn from(reason: String) -> Self {
        let ending = Ending::Otherwise;
        Self { reason, ending }
    }
}

impl Broken {
    fn of(error: &ConnectError) -> Self {
        let ending = match () {
            () if error.is_busy() => Ending::Busy,
            () if error.is_silence() => Ending::Silence,
            () => Ending::Otherwise,
        };
        let reason = chain(error);
        Self { reason, ending }
    }
}

/// A connection to the first address of `address` that answers.
pub(crate) async fn connect(
    context: &SessionContext,
    address: &str,
    target: Target,
) -> Result<Dialed, Broken> {
    let mut last = Broken::from(format!("{address:?} has no address"));
    let found = timeout(RESOLVE_MAX, tokio::net::lookup_host(address))
        .await
        .map_err(|_| format!("finding {address:?} took longer than {RESOLVE_MAX:?}"))?
        .map_err(|error| format!("finding {address:?}: {error}"))?;
    let Target { purpose, wish } = target;
    for address in found {
        match context.outside.connect(address, purpose, wish).await {
            Ok(dialed) => return Ok(dialed),
            Err(error) => last = Broken::of(&error),
        }
    }
    Err(last)
}
