//! The requests that this server was asked for, by operation and by caller.
//!
//! ```text
//!  request ─► count(room, class, identity) ─┬─► totals             nomad.nomad.rpc.job.list
//!                                           └─► of the identity    .. {identity="token:.."}
//! ```
//!
//! | limit | value | at the limit |
//! |---|---|---|
//! | [`IDENTITIES_MAX`] | 1,024 identities | a further one counts as `other` |
//! | [`UNUSED_MAX`] | 1 h without a request | the identity is dropped with its counts |
//!
//! A dropped identity is not added to `other`, where its counts would look like traffic.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use protocol_api::Class;
use protocol_model::AllocId;
use tokio::time::Instant;

use super::{Caller, Rejected};

/// Identities that have counts of their own at a time.
const IDENTITIES_MAX: usize = 1024;
/// How long an identity without a request keeps its counts.
const UNUSED_MAX: Duration = Duration::from_secs(3600);
/// The shortest time between two looks for identities to drop: each passes over all of them.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Whether counts are kept by identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Labels {
    /// By operation and identity.
    ByIdentity,
    /// By operation alone.
    Off,
}

/// A caller as a label names it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Identity {
    Token(Arc<str>),
    Alloc(AllocId),
    Anonymous(IpAddr),
    Other,
}

impl Identity {
    /// `None` where access control is off.
    fn of(caller: &Caller) -> Option<Self> {
        match caller {
            Caller::Open => None,
            Caller::Anonymous { address } => Some(Self::Anonymous(address.to_canonical())),
            Caller::Token { accessor_id, .. } => Some(Self::Token(Arc::clone(accessor_id))),
            Caller::Workload(workload) => Some(Self::Alloc(workload.alloc)),
        }
    }
}

/// The value of the label `identity`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(accessor_id) => write!(f, "token:{accessor_id}"),
            Self::Alloc(id) => write!(f, "alloc:{id}"),
            Self::Anonymous(address) => write!(f, "anonymous:{address}"),
            Self::Other => f.write_str("other"),
        }
    }
}

/// The operations that are counted together.
type Operation = (&'static str, Class);
type Counts = BTreeMap<Operation, u64>;

#[derive(Debug)]
struct Series {
    used: Instant,
    counts: Counts,
}

/// Counting in what is there already needs the table's shared lock alone, so that requests do not
/// wait for each other.
#[derive(Debug, Default)]
struct Table {
    totals: BTreeMap<Operation, AtomicU64>,
    /// Since the start, or since labels were switched on.
    series: HashMap<Identity, Mutex<Series>>,
    swept: Option<Instant>,
}

/// A counter to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) name: String,
    /// A label and its value.
    pub(crate) label: Option<(&'static str, String)>,
    pub(crate) count: u64,
}

/// Counts of requests.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    without_labels: AtomicBool,
    table: RwLock<Table>,
    rejected: [AtomicU64; Rejected::ALL.len()],
}

impl Meters {
    /// Whether requests are counted by identity from now on. Switched off, the counts of identities
    /// are gone.
    pub(crate) fn set_labels(&self, labels: Labels) {
        let off = labels == Labels::Off;
        self.without_labels.store(off, Ordering::Relaxed);
        if off {
            self.table.write().series.clear();
        }
    }

    /// Counts one request.
    pub(crate) fn count(&self, room: &'static str, class: Class, caller: &Caller, now: Instant) {
        let identity = match self.without_labels.load(Ordering::Relaxed) {
            true => None,
            false => Identity::of(caller),
        };
        let operation = (room, class);
        if self
            .table
            .read()
            .count_shared(operation, identity.as_ref(), now)
        {
            return;
        }
        self.table.write().count(operation, identity, now);
    }

    /// Counts a credential that was refused.
    pub(crate) fn reject(&self, why: Rejected) {
        self.rejected[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// All counters. Where `labels` are off, one for each operation.
    pub(crate) fn read(&self, labels: Labels, now: Instant) -> Vec<Count> {
        let is_labelled = !self.without_labels.load(Ordering::Relaxed);
        let mut table = self.table.write();
        table.sweep(now);
        let mut counts: Vec<Count> = match labels {
            Labels::ByIdentity if is_labelled && !table.series.is_empty() => table.by_identity(),
            _ => {
                let totals = table.totals.iter();
                let total = |count: &AtomicU64| count.load(Ordering::Relaxed);
                totals
                    .map(|(it, count)| shown(*it, None, total(count)))
                    .collect()
            }
        };
        let reasons = Rejected::ALL.into_iter().zip(&self.rejected);
        let rejected = reasons.map(|(reason, count)| Count {
            name: "drover.auth.rejected".to_owned(),
            label: Some(("reason", reason.name().to_owned())),
            count: count.load(Ordering::Relaxed),
        });
        counts.extend(rejected.filter(|it| it.count > 0));
        counts
    }
}

impl Table {
    /// Counts where the operation and the identity were counted before; else it answers `false`.
    fn count_shared(
        &self,
        operation: Operation,
        identity: Option<&Identity>,
        now: Instant,
    ) -> bool {
        let Some(total) = self.totals.get(&operation) else {
            return false;
        };
        if let Some(identity) = identity {
            let is_other = || !self.has_room() && !self.may_sweep(now);
            let own = self.series.get(identity);
            let Some(series) = own.or_else(|| match is_other() {
                true => self.series.get(&Identity::Other),
                false => None,
            }) else {
                return false;
            };
            series.lock().count(operation, now);
        }
        total.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn count(&mut self, operation: Operation, identity: Option<Identity>, now: Instant) {
        *self.totals.entry(operation).or_default().get_mut() += 1;
        let Some(identity) = identity else {
            return;
        };
        if let Some(series) = self.series.get_mut(&identity) {
            series.get_mut().count(operation, now);
            return;
        }
        if !self.has_room() && self.may_sweep(now) {
            self.sweep(now);
        }
        let identity = if self.has_room() {
            identity
        } else {
            Identity::Other
        };
        let unused = || Series {
            used: now,
            counts: Counts::new(),
        };
        let series = self.series.entry(identity);
        let series = series.or_insert_with(|| Mutex::new(unused()));
        series.get_mut().count(operation, now);
    }

    fn may_sweep(&self, now: Instant) -> bool {
        self.swept.is_none_or(|at| now >= at + SWEEP_EVERY)
    }

    fn has_room(&self) -> bool {
        let other = usize::from(self.series.contains_key(&Identity::Other));
        self.series.len() - other < IDENTITIES_MAX
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = Some(now);
        self.series.retain(|_, series| {
            let used = series.get_mut().used;
            now.saturating_duration_since(used) < UNUSED_MAX
        });
    }

    /// The counters of all identities, those of one name together.
    fn by_identity(&self) -> Vec<Count> {
        let mut all: Vec<(Operation, &Identity, u64)> = Vec::new();
        for (identity, series) in &self.series {
            let counts = &series.lock().counts;
            let counts = counts.iter();
            all.extend(counts.map(|(operation, count)| (*operation, identity, *count)));
        }
        all.sort_unstable();
        let each = all.into_iter();
        each.map(|(operation, identity, count)| shown(operation, Some(identity), count))
            .collect()
    }
}

impl Series {
    fn count(&mut self, operation: Operation, now: Instant) {
        self.used = now;
        *self.counts.entry(operation).or_default() += 1;
    }
}

fn shown((room, class): Operation, identity: Option<&Identity>, count: u64) -> Count {
    Count {
        name: format!("nomad.nomad.rpc.{room}.{}", class.name()),
        label: identity.map(|identity| ("identity", identity.to_string())),
        count,
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::AclTokenKind;

    use super::*;

    fn token(number: usize) -> Caller {
        Caller::Token {
            accessor_id: format!("a{number}").into(),
            kind: AclTokenKind::Client,
        }
    }

    fn labels(counts: &[Count]) -> Vec<(&str, u64)> {
        let each = counts.iter();
        each.map(|it| (it.label.as_ref().map_or("", |label| &*label.1), it.count))
            .collect()
    }

    #[test]
    fn ten_thousand_identities_make_at_most_1025_series_of_a_name() {
        let (meters, now) = (Meters::default(), Instant::now());
        for number in 0..10_000 {
            meters.count("job", Class::List, &token(number), now);
        }
        let counts = meters.read(Labels::ByIdentity, now);
        assert_eq!(counts.len(), 1025);
        assert!(
            counts
                .iter()
                .all(|it| it.name == "nomad.nomad.rpc.job.list")
        );
        let other = labels(&counts).into_iter().find(|it| it.0 == "other");
        assert_eq!(other, Some(("other", 10_000 - 1024)));
        let total = meters.read(Labels::Off, now);
        assert_eq!(labels(&total), [("", 10_000)]);
    }

    #[test]
    fn an_identity_unused_for_an_hour_makes_room_for_another() {
        let (meters, now) = (Meters::default(), Instant::now());
        for number in 0..2000 {
            meters.count("job", Class::Read, &token(number), now);
        }
        let later = now + UNUSED_MAX;
        meters.count("job", Class::Read, &token(5000), later);
        let counts = meters.read(Labels::ByIdentity, later);
        assert_eq!(labels(&counts), [("token:a5000", 1)]);
        let total = meters.read(Labels::Off, later);
        assert_eq!(labels(&total), [("", 2001)]);
    }

    #[test]
    fn identities_are_named_and_counted_apart() {
        let (meters, now) = (Meters::default(), Instant::now());
        let mapped = "::ffff:10.0.0.1".parse().expect("an address");
        meters.count("job", Class::Read, &token(1), now);
        meters.count("job", Class::Read, &token(1), now);
        meters.count(
            "job",
            Class::Read,
            &Caller::Anonymous { address: mapped },
            now,
        );
        let counts = meters.read(Labels::ByIdentity, now);
        assert_eq!(
            labels(&counts),
            [("token:a1", 2), ("anonymous:10.0.0.1", 1)]
        );
    }

    #[test]
    fn without_labels_requests_are_counted_by_operation() {
        let (meters, now) = (Meters::default(), Instant::now());
        meters.count("job", Class::Read, &token(1), now);
        meters.set_labels(Labels::Off);
        meters.count("job", Class::Read, &token(2), now);
        let counts = meters.read(Labels::ByIdentity, now);
        assert_eq!(labels(&counts), [("", 2)]);
        meters.set_labels(Labels::ByIdentity);
        meters.count("job", Class::Read, &token(3), now);
        let counts = meters.read(Labels::ByIdentity, now);
        assert_eq!(labels(&counts), [("token:a3", 1)]);
    }

    #[test]
    fn callers_have_no_label_where_access_control_is_off() {
        let (meters, now) = (Meters::default(), Instant::now());
        meters.count("job", Class::Write, &Caller::Open, now);
        let counts = meters.read(Labels::ByIdentity, now);
        assert_eq!(labels(&counts), [("", 1)]);
    }

    #[test]
    fn refused_credentials_are_counted_by_reason() {
        let (meters, now) = (Meters::default(), Instant::now());
        meters.reject(Rejected::Expired);
        let counts = meters.read(Labels::Off, now);
        assert_eq!(counts[0].name, "drover.auth.rejected");
        assert_eq!(labels(&counts), [("expired", 1)]);
    }
}
