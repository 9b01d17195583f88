//! `drover var lock`: runs a command while it holds the lock of a variable.
//!
//! ```text
//!  acquire ─► start the command ─► renew, renew .. ─► command ends ─► release
//!     ▲ held by another: wait           └─ not in time: SIGTERM, then SIGKILL to its whole group
//! ```
//!
//! A specification (`@spec.nv.hcl`) may stand for the path: its namespace and items go with the
//! acquisition.
//!
//! The command is dead before another `var lock` can have the lock ([`hold`]), also where `drover`
//! was killed ([`group_leader`]). A `drover` that is itself stopped (SIGSTOP) cannot keep that.

mod child;
pub(crate) mod group_leader;
mod hold;
mod signals;

use std::time::Duration;

use clap::{ArgAction, Args};
use protocol_api::variables::{
    Variable, VariableItems, VariableLock, VariableRequest, WriteVariable,
};
use protocol_client::{Client, ClientError, Query};
use protocol_model::SecretText;
use protocol_model::duration::parse_go;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};

use self::child::Group;
use self::hold::{Due, Hold};
use self::signals::Signals;
use super::{one_namespace, path_of, spec};
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// The pause between two attempts at a lock that another one holds, and after a failed request.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the hold is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a release is tried: the exit waits for it.
const RELEASE_MAX: Duration = Duration::from_secs(5);
/// The shortest time of a lock.
const TTL_MIN: Duration = Duration::from_secs(10);
/// The longest one.
const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Args, Debug)]
pub(crate) struct Lock {
    /// The variable's path, or a specification: @FILE
    #[arg(value_name = "PATH|@FILE")]
    path: String,
    /// The namespace of the specification; empty: the one of the flag or the environment
    #[arg(skip)]
    namespace: String,
    /// The items of the specification, which the acquisition writes
    #[arg(skip)]
    items: Option<VariableItems>,
    /// The command: its words are one line of the shell, without -shell=false
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<String>,
    /// The time for which a renewal holds the lock, 10s to 24h
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    ttl: String,
    /// The time for which the lock blocks others once it has expired
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    delay: String,
    /// How often a failed acquisition is tried again; a lock that is held is waited for
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    max_retry: u32,
    /// Run the command through $SHELL, else /bin/sh
    #[arg(long, value_name = "BOOL", default_value = "true", action = ArgAction::Set)]
    shell: bool,
    /// Tell of the lock
    #[arg(long)]
    verbose: bool,
}

/// The result of a renewal: the time it was sent, and whether it was acknowledged.
type Renewal = JoinHandle<(Duration, Result<Variable, ClientError>)>;

impl Lock {
    pub(super) async fn run(mut self, session: &Session) -> Result<Exit, Failure> {
        one_namespace(session)?;
        let (ttl, delay) = (time("ttl", &self.ttl)?, time("delay", &self.delay)?);
        if !(TTL_MIN..=TTL_MAX).contains(&ttl) {
            return Err(Failure::usage(format!(
                "-ttl {}: TTL must be between 10 seconds and 24 hours",
                self.ttl
            )));
        }
        self.take_specification(session)?;
        let client = session.client()?;
        let (hold, id) = self.acquire(session, &client, (ttl, delay)).await?;
        self.tell(session, "lock acquired");
        // Before the command: without the signals it would survive this process.
        let ended = match Signals::receive() {
            Ok(signals) => self.hold(&client, signals, hold, &id).await,
            Err(failure) => Err(failure),
        };
        self.release(session, &client, &id).await;
        ended
    }

    /// Replaces `@FILE` by the path, the namespace and the items of the specification.
    fn take_specification(&mut self, session: &Session) -> Result<(), Failure> {
        // `-` alone is a path here: stdin belongs to the command.
        if self.path.starts_with('@')
            && let Some(spec) = spec::read(&self.path, None)?
        {
            if spec.path.is_empty() {
                return Err(Failure::usage_hint(
                    format!("the specification {} names no path", &self.path[1..]),
                    "set `path` in it",
                ));
            }
            if session.namespace_flag().is_none() {
                self.namespace = spec.namespace;
            }
            self.path = spec.path;
            self.items = spec.items;
        }
        self.path = path_of(&self.path).to_owned();
        Ok(())
    }

    fn tell(&self, session: &Session, what: &str) {
        if self.verbose {
            session.out.note(&format!("{what}: {:?}", self.path));
        }
    }

    /// Waits until the lock is this command's.
    async fn acquire(
        &self,
        session: &Session,
        client: &Client,
        (ttl, lock_delay): (Duration, Duration),
    ) -> Result<(Hold, SecretText), Failure> {
        let request = VariableRequest {
            items: self.items.clone(),
            ..self.request(VariableLock {
                id: SecretText::default(),
                ttl,
                lock_delay,
            })
        };
        // A later answer is worth nothing.
        let patient = client.clone().with_patience(ttl);
        let (mut failed, mut is_told) = (0, false);
        loop {
            let sent = boot_time();
            match call(&patient, &self.path, "lock-acquire", &request).await {
                Ok(variable) => {
                    let id = variable.lock.unwrap_or_default().id;
                    if let Some(hold) = Hold::acquired(ttl, sent, boot_time()) {
                        return Ok((hold, id));
                    }
                    self.release(session, client, &id).await;
                    if failed >= self.max_retry {
                        return Err(late(&self.path));
                    }
                    failed += 1;
                }
                Err(ClientError::Status { code: 409, .. }) => {
                    if !is_told {
                        self.tell(session, "waiting for the lock");
                        is_told = true;
                    }
                }
                Err(error) if is_refused(&error) => return Err(error.into()),
                Err(error) if failed >= self.max_retry => return Err(error.into()),
                Err(_) => failed += 1,
            }
            sleep(PAUSE).await;
        }
    }

    /// Runs the command, and renews the lock until it ends, or ends the command.
    async fn hold(
        &self,
        client: &Client,
        mut signals: Signals,
        mut hold: Hold,
        id: &SecretText,
    ) -> Result<Exit, Failure> {
        let mut group = Group::start(&self.command, self.shell)?;
        let mut look = interval(LOOK_EVERY);
        let mut renewal: Option<Renewal> = None;
        let mut is_ended = false;
        loop {
            tokio::select! {
                biased;
                () = group.ended() => {
                    let status = group.finish().await?;
                    return match is_ended {
                        true => Err(lost(&self.path)),
                        false => Ok(group_leader::code(status)),
                    };
                }
                received = signals.next() => group.signal(received),
                _ = look.tick() => {}
            }
            if let Some(done) = renewal.take_if(|renewal| renewal.is_finished()) {
                match done.await {
                    Ok((sent, Ok(_))) => hold.on_renewed(sent),
                    Ok((
                        _,
                        Err(ClientError::Status {
                            code: 404 | 409, ..
                        }),
                    )) => hold.on_lost(),
                    Ok((_, Err(_))) | Err(_) => {}
                }
            }
            let now = boot_time();
            match hold.due(now) {
                Due::Nothing => {}
                Due::Renew if renewal.is_none() => {
                    hold.on_sent(now);
                    renewal = Some(self.renew(client, id, now));
                }
                Due::Renew => {}
                Due::End if is_ended => {}
                Due::End => {
                    is_ended = true;
                    group.signal(Signal::TERM);
                }
                Due::Kill => {
                    group.finish().await?;
                    return Err(lost(&self.path));
                }
            }
        }
    }

    fn request(&self, lock: VariableLock) -> VariableRequest {
        VariableRequest {
            namespace: self.namespace.clone(),
            lock: Some(lock),
            ..VariableRequest::default()
        }
    }

    /// A request that shows the lock.
    fn shows(&self, id: &SecretText) -> VariableRequest {
        self.request(VariableLock {
            id: id.clone(),
            ..VariableLock::default()
        })
    }

    fn renew(&self, client: &Client, id: &SecretText, sent: Duration) -> Renewal {
        let (client, path, request) = (client.clone(), self.path.clone(), self.shows(id));
        tokio::spawn(async move {
            let call = call(&client, &path, "lock-renew", &request);
            // An answer that comes later is worth nothing.
            let answer = timeout(TTL_MIN / 3, call).await;
            let silent = |_| ClientError::Silent {
                address: String::new(),
                waited: TTL_MIN / 3,
            };
            (sent, answer.map_err(silent).and_then(|answer| answer))
        })
    }

    /// Frees the lock for others. An unreleased lock expires.
    async fn release(&self, session: &Session, client: &Client, id: &SecretText) {
        let (path, request) = (&self.path, self.shows(id));
        let deadline = boot_time() + RELEASE_MAX;
        loop {
            let left = deadline.saturating_sub(boot_time());
            let patient = client.clone().with_patience(left);
            match call(&patient, path, "lock-release", &request).await {
                Ok(_) => return self.tell(session, "lock released"),
                Err(error) if is_refused(&error) || boot_time() + PAUSE >= deadline => {
                    let text =
                        format!("the lock of {path:?} was not released, it expires: {error}");
                    return session.out.note(&text);
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

/// Whether the server refused a request for good. 429: there were too many for a moment.
fn is_refused(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Status {
            code: 400..=428 | 430..=499,
            ..
        }
    )
}

fn lost(path: &str) -> Failure {
    Failure::usage_hint(
        format!("the lock of {path:?} was lost, and the command was ended"),
        "its renewals were not acknowledged in time",
    )
}

fn late(path: &str) -> Failure {
    Failure::usage_hint(
        format!("the lock of {path:?} was acquired too late to begin the command"),
        "the answer of the server was under way for more than 70 % of the TTL; use a longer -ttl",
    )
}

async fn call(
    client: &Client,
    path: &str,
    operation: &str,
    request: &VariableRequest,
) -> Result<Variable, ClientError> {
    let query = Query::new().with(operation, "");
    let write = WriteVariable { path };
    let answer = client.call_with(&write, &query, request).await;
    answer.map(|answer| answer.value)
}

/// The time since the host started, its sleep included.
fn boot_time() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn time(flag: &str, text: &str) -> Result<Duration, Failure> {
    parse_go(text).map_err(|error| Failure::usage(format!("-{flag}: {error}")))
}
