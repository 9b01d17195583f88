//! The timers between a change of a template's files and the rendering that it causes.
//!
//! ```text
//!               wait.min after the last change,
//!   changed --> wait.max after the first -------> noop: due at once
//!                                         `-----> others: splay --> due --> rendering --> merge
//! ```
//!
//! Files are written when the rendering is due, not before: a task that is told of a change finds
//! the file of that moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol_model::{ChangeMode, Task, Template};

use crate::pseudo_random::{mix, part_of};
use crate::time::{Moment, earliest};

/// Nomad's default of `wait`, where a job has none.
const WAIT_MIN_DEFAULT: Duration = Duration::from_secs(5);
/// As [`WAIT_MIN_DEFAULT`].
const WAIT_MAX_DEFAULT: Duration = Duration::from_secs(240);
/// `wait.max` of a job that has `wait.min` only, in multiples of it (consul-template).
const WAIT_MAX_FACTOR: u32 = 4;

/// The changes of a task's templates that nothing was done about.
#[derive(Clone, PartialEq, Debug, Default)]
pub(in crate::task_runner) struct Follower {
    files: Files,
    /// Changes that wait for quiescence.
    waiting: BTreeMap<usize, Waiting>,
    /// Changes that wait out a random delay, together.
    splayed: Option<Splayed>,
    /// Templates to be rendered with the next rendering.
    due: BTreeSet<usize>,
    request: Request,
    /// Change scripts that run, by their template, and whether each is to run once more.
    scripts: BTreeMap<usize, Again>,
    /// Random delays that were drawn.
    draws: u64,
}

/// Whether this daemon knows that the files are what their templates give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Files {
    /// An earlier daemon rendered them, or none.
    #[default]
    Unknown,
    /// It rendered or compared them.
    Known,
}

/// Whether an answer to a rendering is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Request {
    #[default]
    None,
    UnderWay,
}

/// Whether a script runs once more after its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Again {
    No,
    Yes,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Waiting {
    first: Moment,
    until: Moment,
}

#[derive(Clone, PartialEq, Debug)]
struct Splayed {
    until: Moment,
    offsets: BTreeSet<usize>,
}

impl Follower {
    /// Files that templates read have changed.
    pub(in crate::task_runner) fn on_changed(
        &mut self,
        offsets: &BTreeSet<usize>,
        task: &Task,
        now: Moment,
    ) {
        for offset in offsets {
            let Some(template) = followed(task, *offset) else {
                continue;
            };
            let first = self.waiting.get(offset).map_or(now, |it| it.first);
            let (min, max) = wait_of(template);
            let until = now.after(min).min(first.after(max));
            self.waiting.insert(*offset, Waiting { first, until });
        }
    }

    /// The next time at which [`Self::on_timeout`] changes something.
    pub(in crate::task_runner) fn poll_timeout(&self) -> Option<Moment> {
        let waiting = self.waiting.values().map(|it| it.until).min();
        let splayed = self.splayed.as_ref().map(|it| it.until);
        earliest(waiting, splayed)
    }

    /// Time has passed. `seed` differs from task to task.
    pub(in crate::task_runner) fn on_timeout(&mut self, task: &Task, seed: u64, now: Moment) {
        let quiet: BTreeSet<usize> = self
            .waiting
            .iter()
            .filter(|(_, it)| it.until <= now)
            .map(|(offset, _)| *offset)
            .collect();
        self.waiting.retain(|_, it| it.until > now);
        let mut acting = BTreeSet::new();
        for offset in quiet {
            match followed(task, offset).map(Template::change_mode) {
                Some(Ok(ChangeMode::Noop)) | None => self.due.insert(offset),
                Some(_) => acting.insert(offset),
            };
        }
        if !acting.is_empty() {
            self.splay(acting, task, seed, now);
        }
        if let Some(splayed) = self.splayed.take_if(|it| it.until <= now) {
            self.due.extend(splayed.offsets);
        }
    }

    /// One delay for all that are acted upon together; what comes during it joins.
    fn splay(&mut self, offsets: BTreeSet<usize>, task: &Task, seed: u64, now: Moment) {
        if let Some(splayed) = &mut self.splayed {
            splayed.offsets.extend(offsets);
            return;
        }
        let longest = offsets
            .iter()
            .filter_map(|offset| task.templates.get(*offset))
            .map(Template::splay)
            .max()
            .unwrap_or_default();
        let until = now.after(part_of(longest, mix(seed, self.draws)));
        self.draws += 1;
        self.splayed = Some(Splayed { until, offsets });
    }

    /// The templates to render now; none while an earlier rendering is under way.
    pub(in crate::task_runner) fn begin_rendering(&mut self) -> Option<BTreeSet<usize>> {
        if self.request == Request::UnderWay || self.due.is_empty() {
            return None;
        }
        self.request = Request::UnderWay;
        Some(std::mem::take(&mut self.due))
    }

    /// The rendering is answered. Returns whether one was asked for.
    pub(in crate::task_runner) fn on_rendered(&mut self) -> bool {
        std::mem::take(&mut self.request) == Request::UnderWay
    }

    /// A template's script is to run. Returns whether it may begin: one that runs still does so
    /// once more after its end.
    pub(in crate::task_runner) fn begin_script(&mut self, offset: usize) -> bool {
        let earlier = self.scripts.get(&offset).copied();
        let again = earlier.map_or(Again::No, |_| Again::Yes);
        self.scripts.insert(offset, again);
        earlier.is_none()
    }

    /// A template's script has ended. Returns whether it is to run once more, at once.
    pub(in crate::task_runner) fn end_script(&mut self, offset: usize) -> bool {
        self.scripts.remove(&offset) == Some(Again::Yes)
    }

    /// Whether an attempt renders a template anew that an earlier one has rendered: it has changed.
    pub(in crate::task_runner) fn is_stale(&self, offset: usize) -> bool {
        self.files == Files::Unknown
            || self.waiting.contains_key(&offset)
            || self.due.contains(&offset)
            || self
                .splayed
                .as_ref()
                .is_some_and(|it| it.offsets.contains(&offset))
    }

    /// An attempt has its files: every change until then is in them.
    pub(in crate::task_runner) fn on_prepared(&mut self) {
        let draws = self.draws;
        *self = Self {
            files: Files::Known,
            draws,
            ..Self::default()
        };
    }

    /// The next attempt renders every template.
    pub(in crate::task_runner) fn forget(&mut self) {
        self.files = Files::Unknown;
    }
}

/// A template whose changes count.
fn followed(task: &Task, offset: usize) -> Option<&Template> {
    let template = task.templates.get(offset);
    template.filter(|template| !template.is_rendered_once())
}

/// The shortest and the longest wait for quiescence.
fn wait_of(template: &Template) -> (Duration, Duration) {
    let wait = template.wait.clone().unwrap_or_default();
    match (wait.min, wait.max) {
        (None, None) => (WAIT_MIN_DEFAULT, WAIT_MAX_DEFAULT),
        (Some(min), None) => (min, min.saturating_mul(WAIT_MAX_FACTOR)),
        (None, Some(max)) => (WAIT_MIN_DEFAULT.min(max), max),
        (Some(min), Some(max)) => (min, max),
    }
}
