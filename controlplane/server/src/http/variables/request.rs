//! The meaning of a `PUT` or `DELETE`: its operation, its check-and-set, its lock.

use std::time::Duration;

use controlplane_state::{LOCK_TIME_DEFAULT, LOCK_TTL_MAX, LOCK_TTL_MIN, VariableLock};
use protocol_api::variables::{self, VariableItems};
use uuid::Uuid;

use crate::http::error::HttpError;
use crate::http::query::Query;

/// The operation of a `PUT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    /// Writes items.
    Write,
    /// `?lock-acquire`.
    Acquire,
    /// `?lock-renew`.
    Renew,
    /// `?lock-release`.
    Release,
}

impl Operation {
    /// The operation that the query asks for, and its check-and-set.
    ///
    /// # Errors
    /// 400 where it asks for several, or for one of a lock with check-and-set.
    pub(super) fn of(query: &Query) -> Result<(Self, Option<u64>), HttpError> {
        let named = [
            ("lock-acquire", Self::Acquire),
            ("lock-renew", Self::Renew),
            ("lock-release", Self::Release),
        ];
        let mut asked = named.into_iter().filter(|(name, _)| query.switch(name));
        let cas = cas(query)?;
        match (asked.next(), asked.next(), cas) {
            (_, Some(_), _) => Err(HttpError::bad_request("multiple lock operations")),
            (Some(_), None, Some(_)) => Err(HttpError::bad_request(
                "CAS can't be used with lock operations",
            )),
            (Some((_, operation)), None, None) => Ok((operation, None)),
            (None, None, cas) => Ok((Self::Write, cas)),
        }
    }
}

/// The index of `?cas=`.
///
/// # Errors
/// 400 where it is no index.
pub(super) fn cas(query: &Query) -> Result<Option<u64>, HttpError> {
    let Some(text) = query.get("cas") else {
        return Ok(None);
    };
    text.parse()
        .map(Some)
        .map_err(|_| HttpError::bad_request(format!("can not parse cas: {text:?} is not an index")))
}

/// The lock that a caller shows with its write or deletion.
///
/// # Errors
/// 400 where it is no lock that can be shown.
pub(super) fn shown_lock(
    lock: Option<&variables::VariableLock>,
) -> Result<Option<Uuid>, HttpError> {
    match lock {
        None => Ok(None),
        Some(lock) if lock.id.is_empty() => Err(HttpError::bad_request(
            "variable should not contain lock definition",
        )),
        Some(lock) => Ok(Some(id(lock)?)),
    }
}

/// The lock that a renewal or release needs.
///
/// # Errors
/// 400 where it names none.
pub(super) fn needed_lock(lock: Option<&variables::VariableLock>) -> Result<Uuid, HttpError> {
    match lock {
        Some(lock) if !lock.id.is_empty() => id(lock),
        _ => Err(HttpError::bad_request("missing lock information")),
    }
}

/// The lock to acquire, and the one that the caller says it holds.
///
/// # Errors
/// 400 where its times are out of range.
pub(super) fn new_lock(
    lock: Option<&variables::VariableLock>,
) -> Result<(VariableLock, Option<Uuid>), HttpError> {
    let asked = lock.cloned().unwrap_or_default();
    let held = match asked.id.is_empty() {
        true => None,
        false => Some(id(&asked)?),
    };
    let or_default = |time: Duration| match time.is_zero() {
        true => LOCK_TIME_DEFAULT,
        false => time,
    };
    let (ttl, delay) = (or_default(asked.ttl), or_default(asked.lock_delay));
    if !(LOCK_TTL_MIN..=LOCK_TTL_MAX).contains(&ttl) {
        return Err(HttpError::bad_request(
            "TTL must be between 10 seconds and 24 hours",
        ));
    }
    let lock = VariableLock {
        id: Uuid::new_v4(),
        ttl,
        delay,
        until: None,
    };
    Ok((lock, held))
}

/// The items of a plain write.
///
/// # Errors
/// 400 where there are none.
pub(super) fn needed_items(items: Option<VariableItems>) -> Result<VariableItems, HttpError> {
    match items {
        None => Err(HttpError::bad_request(
            "variable missing required Items object",
        )),
        Some(items) if items.is_empty() => {
            Err(HttpError::bad_request("empty variables are invalid"))
        }
        Some(items) => Ok(items),
    }
}

fn id(lock: &variables::VariableLock) -> Result<Uuid, HttpError> {
    let id = Uuid::try_parse(lock.id.reveal());
    id.map_err(|_| HttpError::bad_request("Lock.ID is not the id of a lock: it is no UUID"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(query: &str) -> Result<(Operation, Option<u64>), String> {
        let query = Query::parse(query).expect("a query");
        Operation::of(&query).map_err(|error| error.message)
    }

    #[test]
    fn a_query_names_one_operation() {
        assert_eq!(operation(""), Ok((Operation::Write, None)));
        assert_eq!(operation("cas=0"), Ok((Operation::Write, Some(0))));
        assert_eq!(operation("lock-renew"), Ok((Operation::Renew, None)));
        assert_eq!(operation("lock-release="), Ok((Operation::Release, None)));
        for (query, text) in [
            ("lock-acquire&lock-renew", "multiple lock operations"),
            (
                "lock-acquire&cas=1",
                "CAS can't be used with lock operations",
            ),
            ("cas=x", "can not parse cas: \"x\" is not an index"),
            ("cas=", "can not parse cas: \"\" is not an index"),
            ("cas=-1", "can not parse cas: \"-1\" is not an index"),
        ] {
            assert_eq!(operation(query), Err(text.to_owned()), "{query}");
        }
    }

    #[test]
    fn times_of_a_new_lock_are_15_seconds_or_in_range() {
        let (lock, held) = new_lock(None).expect("a lock");
        let seconds = (lock.ttl.as_secs(), lock.delay.as_secs());
        assert_eq!((seconds, held), ((15, 15), None));
        let short = variables::VariableLock {
            ttl: Duration::from_secs(9),
            ..variables::VariableLock::default()
        };
        let refused = new_lock(Some(&short)).expect_err("too short");
        let text = "TTL must be between 10 seconds and 24 hours";
        assert_eq!(refused.message, text);
    }
}
