//! `limits { budget "KIND" { .. } }`: how much callers may ask where access control is on.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use protocol_access::budget::{Kind, KindLimits, Limits, Rate};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::ConfigError;
use super::build::value;

/// The largest number of requests or places.
const REQUESTS_MAX: u32 = 1_000_000;
/// The longest burst, and the longest time that a rate is for.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// The blocks by their labels.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetBlocks {
    /// Management tokens.
    pub management: CallerBlock,
    /// Client tokens.
    pub token: CallerBlock,
    /// Tasks, by job.
    pub workload: CallerBlock,
    /// Callers without a credential, by address.
    pub anonymous: CallerBlock,
    /// Refused credentials, by address.
    pub failure: AddressBlock,
    /// Logins, by address.
    pub login: AddressBlock,
}

/// The budget of a kind of caller.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallerBlock {
    /// Reads of one object a second.
    pub read: Option<Requests>,
    /// Lists a second.
    pub list: Option<Requests>,
    /// Writes a second.
    pub write: Option<Requests>,
    /// The time whose requests are taken at once after a rest.
    pub burst: Option<String>,
    /// Queries that wait at a time.
    pub waiting: Option<u32>,
    /// Streams at a time.
    pub streams: Option<u32>,
}

/// The budget of an address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AddressBlock {
    /// Requests in `per`.
    pub requests: Option<u32>,
    /// The time that they are spread over.
    pub per: Option<String>,
    /// The time whose requests are taken at once after a rest.
    pub burst: Option<String>,
}

/// Requests a second: a number, or `"unlimited"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requests {
    /// So many.
    Limited(u32),
    /// Any number.
    Unlimited,
}

impl<'de> Deserialize<'de> for Requests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Requests;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of requests a second, or \"unlimited\"")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Requests, E> {
                let number = u32::try_from(number);
                Ok(Requests::Limited(number.unwrap_or(u32::MAX)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Requests, E> {
                match text {
                    "unlimited" => Ok(Requests::Unlimited),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Completes the blocks with the defaults.
///
/// # Errors
/// If a value makes no sense.
pub(super) fn limits(given: &BudgetBlocks) -> Result<Limits, ConfigError> {
    let usual = Limits::default();
    let caller = |kind, block, usual| Keys(kind).caller(block, usual);
    let address = |kind, block, usual| Keys(kind).address(block, usual);
    Ok(Limits {
        management: caller(Kind::Management, &given.management, usual.management)?,
        token: caller(Kind::Token, &given.token, usual.token)?,
        workload: caller(Kind::Workload, &given.workload, usual.workload)?,
        anonymous: caller(Kind::Anonymous, &given.anonymous, usual.anonymous)?,
        failure: address(Kind::Failure, &given.failure, usual.failure)?,
        login: address(Kind::Login, &given.login, usual.login)?,
    })
}

/// The keys of the block of a kind.
#[derive(Clone, Copy)]
struct Keys(Kind);

impl Keys {
    fn caller(self, given: &CallerBlock, usual: KindLimits) -> Result<KindLimits, ConfigError> {
        let requests = |name, given: Option<Requests>, usual| match given {
            None => Ok(usual),
            Some(Requests::Unlimited) => Ok(None),
            Some(Requests::Limited(0)) if self.0 == Kind::Management => Err(value(
                self.key(name),
                "0 would shut out the operators: give a number, or \"unlimited\"",
            )),
            Some(Requests::Limited(number)) => self.number(name, number, 0).map(Some),
        };
        let places = |name, given: Option<u32>, usual| match given {
            None => Ok(usual),
            Some(number) => self.number(name, number, 0),
        };
        Ok(KindLimits {
            read: requests("read", given.read, usual.read)?,
            list: requests("list", given.list, usual.list)?,
            write: requests("write", given.write, usual.write)?,
            burst: self.time("burst", given.burst.as_deref(), usual.burst)?,
            waiting: places("waiting", given.waiting, usual.waiting)?,
            streams: places("streams", given.streams, usual.streams)?,
        })
    }

    fn address(self, given: &AddressBlock, usual: Rate) -> Result<Rate, ConfigError> {
        let requests = match given.requests {
            None => usual.requests,
            Some(number) => self.number("requests", number, 1)?,
        };
        let per = self.time("per", given.per.as_deref(), usual.per)?;
        if per.is_zero() {
            return Err(value(self.key("per"), "0s is no time for a rate"));
        }
        let burst = usual.per * usual.burst / usual.requests.max(1);
        let burst = self.time("burst", given.burst.as_deref(), burst)?;
        let at_once = u128::from(requests) * burst.as_nanos() / per.as_nanos();
        Ok(Rate {
            requests,
            per,
            burst: u32::try_from(at_once).unwrap_or(u32::MAX).max(1),
        })
    }

    fn number(self, name: &str, given: u32, least: u32) -> Result<u32, ConfigError> {
        if (least..=REQUESTS_MAX).contains(&given) {
            return Ok(given);
        }
        let message = format!("{given} is not between {least} and {REQUESTS_MAX}");
        Err(value(self.key(name), message))
    }

    fn time(
        self,
        name: &str,
        given: Option<&str>,
        usual: Duration,
    ) -> Result<Duration, ConfigError> {
        let time = super::build::time(self.key(name), given, usual)?;
        if time > TIME_MAX {
            let message = format!("{time:?} is more than {TIME_MAX:?}");
            return Err(value(self.key(name), message));
        }
        Ok(time)
    }

    fn key(self, name: &str) -> Cow<'static, str> {
        format!("limits.budget.{}.{name}", self.0).into()
    }
}
