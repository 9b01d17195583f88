//! Starting keeper and pump where nobody else does, and hearing what runs.

use std::os::fd::AsFd;
use std::time::Duration;

use noded_keeper::client::{
    Connection, HeldSocket, Launch, LaunchError, Upgrade, end_outdated_pump, ensure_current,
    ensure_pump_running,
};
use noded_keeper::protocol::{Event, Message, Request, Response, TaskReport};
use protocol_error_chain::chain;
use tokio::sync::mpsc;

use super::{Call, LIST_MAX, LinkError, Opened};

/// How often pump is looked at; it may be away for that long without anything being lost.
const PUMP_CHECK: Duration = Duration::from_secs(2);

/// Starts keeper and pump where nobody else does, and asks what runs.
///
/// # Errors
/// Where one of them cannot be started or does not answer.
pub async fn open(launch: &Launch) -> Result<Opened, LinkError> {
    let launch = launch.clone();
    let (connection, listing, early) = tokio::task::spawn_blocking(move || {
        let (mut connection, upgrade) = ensure_current(&launch).map_err(LinkError::Launch)?;
        report(&upgrade, &connection);
        if let Err(error) = end_outdated_pump(&launch) {
            tracing::warn!(error = %chain(&error), "pump is of another build, or its build is unknown");
        }
        match ensure_pump_running(&launch) {
            // Tasks can wait for it, and the service manager is about to start it again.
            Err(error @ LaunchError::Absent { .. }) => tracing::warn!("{error}"),
            started => started.map_err(LinkError::Pump)?,
        }
        let (listing, early) = list(&mut connection)?;
        Ok::<_, LinkError>((connection, listing, early))
    })
    .await
    .map_err(|_| LinkError::Interrupted)??;
    let descriptor = connection
        .as_fd()
        .try_clone_to_owned()
        .map_err(LinkError::Poll)?;
    let poll = crate::poll_fd::poll(descriptor).map_err(LinkError::Poll)?;
    Ok(Opened {
        connection,
        poll,
        listing,
        early,
    })
}

/// Copies of the sockets that keeper holds. Without them noded binds each task's socket anew: no
/// reason not to serve.
pub async fn take_sockets(mut opened: Opened) -> Result<(Opened, Vec<HeldSocket>), LinkError> {
    tokio::task::spawn_blocking(move || {
        let taken = opened.connection.take_sockets();
        let held = taken.unwrap_or_else(|error| {
            let error = chain(&error);
            tracing::warn!(%error, "sockets of tasks are bound anew: connects fail until then");
            Vec::new()
        });
        (opened, held)
    })
    .await
    .map_err(|_| LinkError::Interrupted)
}

/// An old keeper is no reason not to serve: it has the tasks, and refuses by name what it does not
/// know.
fn report(upgrade: &Upgrade, connection: &Connection) {
    let welcome = connection.welcome();
    match upgrade {
        Upgrade::NotNeeded => tracing::debug!(?welcome, "keeper is of this build"),
        Upgrade::Done => tracing::info!(?welcome, "keeper was upgraded; its tasks kept running"),
        Upgrade::NotDone(error) => tracing::error!(
            error = %chain(error),
            ?welcome,
            "keeper is of another build and was not upgraded; it and its tasks keep running"
        ),
    }
}

fn list(connection: &mut Connection) -> Result<(Vec<TaskReport>, Vec<Event>), LinkError> {
    let asked = connection
        .send(&Request::List, &[])
        .map_err(LinkError::Connection)?;
    let (mut listing, mut early) = (Vec::new(), Vec::new());
    loop {
        let message = connection
            .recv_within(LIST_MAX)
            .map_err(LinkError::Connection)?
            .ok_or(LinkError::ListTimedOut)?;
        match message {
            Message::Response {
                call,
                response: Response::Listing { tasks, more },
            } if call == asked => {
                listing.extend(tasks);
                if !more {
                    return Ok((listing, early));
                }
            }
            // Nothing else was asked on this connection.
            Message::Response { .. } => {}
            Message::Event(event) => early.push(event),
        }
    }
}

/// pump may be restarted at will; someone has to.
pub(super) async fn watch_pump(launch: Launch, alive: mpsc::WeakSender<Call>) {
    let mut ticks = tokio::time::interval(PUMP_CHECK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if alive.upgrade().is_none() {
            return;
        }
        let launch = launch.clone();
        match tokio::task::spawn_blocking(move || ensure_pump_running(&launch)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(error = %chain(&error), "pump cannot be started"),
            Err(_) => return,
        }
    }
}
