//! In which version of the protocol each message came to be: the version byte of its packet.

use super::{Event, ExitCause, Message, Refusal, Request, Response, TaskPhase, TaskReport};

impl Request {
    /// The lowest version whose speakers know this request.
    #[must_use]
    pub fn since(&self) -> u8 {
        match self {
            Self::Hello { .. }
            | Self::Spawn(_)
            | Self::Signal { .. }
            | Self::Stop { .. }
            | Self::Kill { .. }
            | Self::List
            | Self::Acknowledge { .. }
            | Self::Forget { .. }
            | Self::Shutdown
            | Self::Ping => 1,
            Self::Upgrade | Self::ExtendLeases { .. } | Self::EndLease { .. } => 2,
            Self::Hold { .. } | Self::Take { .. } | Self::Drop { .. } => 3,
        }
    }
}

impl Message {
    /// The lowest version whose speakers know this message and everything in it.
    #[must_use]
    pub fn since(&self) -> u8 {
        match self {
            Self::Response { response, .. } => response.since(),
            Self::Event(Event::Exited { exit, .. }) => exit.cause.since(),
            Self::Event(Event::Started { .. } | Event::SpawnFailed { .. }) => 1,
        }
    }

    /// The same for a client that speaks no more than `version`: what it does not know is told in
    /// the nearest words that it does.
    #[must_use]
    pub fn in_words_of(mut self, version: u32) -> Self {
        if u32::from(self.since()) <= version {
            return self;
        }
        match &mut self {
            Self::Event(Event::Exited { exit, .. }) => exit.cause = exit.cause.in_version_1(),
            Self::Response {
                response: Response::Listing { tasks, .. },
                ..
            } => {
                for task in tasks {
                    if let TaskPhase::Exited(exit) = &mut task.phase {
                        exit.cause = exit.cause.in_version_1();
                    }
                }
            }
            Self::Response { response, .. } => {
                if let Response::Refused(refusal) = response {
                    let detail = refusal.to_string();
                    *refusal = Refusal::Spawn { detail };
                }
            }
            Self::Event(Event::Started { .. } | Event::SpawnFailed { .. }) => {}
        }
        self
    }
}

impl Response {
    fn since(&self) -> u8 {
        match self {
            Self::Welcome { .. } | Self::Accepted | Self::Stopping { .. } | Self::Pong { .. } => 1,
            Self::Listing { tasks, .. } => tasks.iter().map(TaskReport::since).max().unwrap_or(1),
            Self::Refused(refusal) => refusal.since(),
            Self::Held { .. } => 3,
        }
    }
}

impl TaskReport {
    fn since(&self) -> u8 {
        match &self.phase {
            TaskPhase::Exited(exit) => exit.cause.since(),
            TaskPhase::Starting { .. }
            | TaskPhase::Running { .. }
            | TaskPhase::Ending { .. }
            | TaskPhase::SpawnFailed(_) => 1,
        }
    }
}

impl ExitCause {
    fn since(self) -> u8 {
        match self {
            Self::OwnAccord
            | Self::KillDeadline
            | Self::SignalWouldBeDiscarded
            | Self::KillRequest => 1,
            Self::LeaseExpired => 2,
        }
    }

    fn in_version_1(self) -> Self {
        match self {
            // Also a deadline after which it was killed.
            Self::LeaseExpired => Self::KillDeadline,
            known => known,
        }
    }
}

impl Refusal {
    fn since(&self) -> u8 {
        match self {
            Self::NotGreeted
            | Self::NoCommonVersion { .. }
            | Self::Malformed { .. }
            | Self::StaleEpoch { .. }
            | Self::UnknownTask
            | Self::AlreadyEnded
            | Self::StillStarting
            | Self::EarlierRunAlive { .. }
            | Self::Spawn { .. }
            | Self::TooManyRuns { .. }
            | Self::MissingDescriptor { .. }
            | Self::BadPlan { .. }
            | Self::Cgroup { .. }
            | Self::CgroupNotEmpty { .. }
            | Self::Fifo { .. }
            | Self::Signal { .. }
            | Self::Record { .. }
            | Self::RunsRemain { .. } => 1,
            Self::LeaseExpired
            | Self::TooManyLeases { .. }
            | Self::Lease { .. }
            | Self::UpgradeFailed { .. }
            | Self::UpgradeUnderWay => 2,
            Self::TooManySockets { .. } | Self::Socket { .. } => 3,
        }
    }
}
