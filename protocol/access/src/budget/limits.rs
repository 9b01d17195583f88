//! The limits as data: the defaults, which a configuration changes.

use std::fmt;
use std::time::Duration;

/// The kind of a caller; each has its own limits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    Management,
    Token,
    Workload,
    Anonymous,
    /// Credentials that were refused, by address; those of tasks behind a node by task.
    Failure,
    /// Logins with an auth method, by address.
    Login,
}

impl Kind {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 6] = [
        Self::Management,
        Self::Token,
        Self::Workload,
        Self::Anonymous,
        Self::Failure,
        Self::Login,
    ];

    /// The label of `budget "KIND"` in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Management => "management",
            Self::Token => "token",
            Self::Workload => "workload",
            Self::Anonymous => "anonymous",
            Self::Failure => "failure",
            Self::Login => "login",
        }
    }

    /// The kind of a label.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The class of a request. Failures and logins have one class alone: their rate holds for all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    Read,
    List,
    Write,
}

impl Class {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Read, Self::List, Self::Write];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Write => "write",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A place that a request occupies for as long as it lasts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// A blocking query.
    Waiting,
    /// Followed logs, files, an exec session, a snapshot.
    Stream,
}

impl Place {
    /// The noun of messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting queries",
            Self::Stream => "streams",
        }
    }
}

/// So many requests in a time, with a burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Requests in `per`. 0 allows none at all.
    pub requests: u32,
    /// The time that `requests` are spread over.
    pub per: Duration,
    /// Requests at once after a rest, at least 1.
    pub burst: u32,
}

impl Rate {
    /// `requests` a second; the burst is what `burst` would bring.
    pub fn a_second(requests: u32, burst: Duration) -> Self {
        let at_once = u128::from(requests) * burst.as_millis() / 1000;
        Self {
            requests,
            per: Duration::from_secs(1),
            burst: u32::try_from(at_once).unwrap_or(u32::MAX).max(1),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, per, .. } = self;
        match per.as_secs() {
            1 if per.subsec_nanos() == 0 => write!(f, "{requests} a second"),
            60 if per.subsec_nanos() == 0 => write!(f, "{requests} a minute"),
            _ => write!(f, "{requests} in {per:?}"),
        }
    }
}

/// The limits of one kind of caller, for each key of this kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KindLimits {
    /// Requests a second that read one object; `None` is without limit.
    pub read: Option<u32>,
    /// Lists and searches a second.
    pub list: Option<u32>,
    /// Writes a second, in the whole cluster.
    pub write: Option<u32>,
    /// After a rest the requests of this time are taken at once.
    pub burst: Duration,
    /// Blocking queries at a time.
    pub waiting: u32,
    /// Streams at a time.
    pub streams: u32,
}

/// All limits. [`Limits::default`] is the table of the documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub management: KindLimits,
    pub token: KindLimits,
    pub workload: KindLimits,
    pub anonymous: KindLimits,
    /// Refused credentials of an address, or of a task behind a node.
    pub failure: Rate,
    /// Logins of an address.
    pub login: Rate,
}

impl Default for Limits {
    fn default() -> Self {
        let burst = Duration::from_secs(5);
        Self {
            management: KindLimits {
                read: None,
                list: None,
                write: None,
                burst,
                waiting: 1024,
                streams: 256,
            },
            token: KindLimits {
                read: Some(1000),
                list: Some(100),
                write: Some(200),
                burst,
                waiting: 256,
                streams: 64,
            },
            workload: KindLimits {
                read: Some(500),
                list: Some(50),
                write: Some(50),
                burst,
                waiting: 64,
                streams: 16,
            },
            anonymous: KindLimits {
                read: Some(20),
                list: Some(5),
                write: Some(5),
                burst,
                waiting: 8,
                streams: 4,
            },
            failure: Rate {
                requests: 5,
                per: Duration::from_secs(1),
                burst: 20,
            },
            login: Rate {
                requests: 10,
                per: Duration::from_secs(60),
                burst: 10,
            },
        }
    }
}

impl Limits {
    /// The limits of a kind of caller; `None` for failures and logins.
    pub fn kind(&self, kind: Kind) -> Option<&KindLimits> {
        match kind {
            Kind::Management => Some(&self.management),
            Kind::Token => Some(&self.token),
            Kind::Workload => Some(&self.workload),
            Kind::Anonymous => Some(&self.anonymous),
            Kind::Failure | Kind::Login => None,
        }
    }

    /// The rate of a class; `None` is without limit.
    pub fn rate(&self, kind: Kind, class: Class) -> Option<Rate> {
        let Some(limits) = self.kind(kind) else {
            let by_address = match kind {
                Kind::Login => self.login,
                _ => self.failure,
            };
            return Some(by_address);
        };
        let requests = match class {
            Class::Read => limits.read,
            Class::List => limits.list,
            Class::Write => limits.write,
        };
        requests.map(|requests| Rate::a_second(requests, limits.burst))
    }

    /// Places at a time; `None` is without limit.
    pub fn places(&self, kind: Kind, place: Place) -> Option<u32> {
        self.kind(kind).map(|limits| match place {
            Place::Waiting => limits.waiting,
            Place::Stream => limits.streams,
        })
    }
}
