//! The files that templates of tasks read, and whether they have changed.
//!
//! ```text
//!   a rendering --record--> registry <--follow, pause, forget-- effects
//!                              ^ |
//!   every 2 s: one look (stat) | `--> RunEvent::TemplatesChanged, a warning of a file that is away
//! ```
//!
//! As consul-template, it follows the files that `file` names, not the source of the template. A
//! file that is away changes nothing: the text that was rendered last stays.

mod look;
mod mark;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use noded_core::event::RunEvent;
use noded_core::{Event, Moment, RunKey};
use parking_lot::Mutex;
use protocol_model::duration::format_go;
use protocol_model::{AllocId, TaskEventKind};

pub(crate) use look::look_at_files;
pub(crate) use mark::FileMark;

/// Files of one template that are followed. A template that reads more is rendered like any other,
/// and a change of the others is not noticed.
const FILES_MAX: usize = 256;
/// Files that are looked at together; the others are looked at next time.
const LOOK_FILES_MAX: usize = 4096;
/// When a file that is away is mentioned.
const AWAY_WARNINGS: [Duration; 3] = [
    Duration::from_secs(60),
    Duration::from_secs(600),
    Duration::from_secs(3600),
];

/// The files that one rendering read, below the allocation's directory; `None` = it is away.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Files beyond [`FILES_MAX`].
    surplus: usize,
    files: BTreeMap<PathBuf, Option<FileMark>>,
}

impl Sources {
    pub(crate) fn add(&mut self, path: &Path, mark: Option<FileMark>) {
        if self.files.len() < FILES_MAX {
            self.files.insert(path.to_owned(), mark);
        } else {
            self.surplus += 1;
        }
    }
}

/// All followed files of a node.
#[derive(Debug, Default)]
pub(crate) struct TemplateWatch {
    tasks: Mutex<BTreeMap<TaskId, WatchedTask>>,
}

type TaskId = (AllocId, String);

#[derive(Debug, Default)]
struct WatchedTask {
    /// The run that is told; `None` = none lives.
    run: Option<RunKey>,
    /// By the offset of the template in the task's list.
    templates: BTreeMap<usize, BTreeMap<PathBuf, WatchedFile>>,
}

#[derive(Debug)]
struct WatchedFile {
    /// As it was rendered.
    rendered: Option<FileMark>,
    /// As it was found last.
    seen: Option<FileMark>,
    away: Option<Away>,
}

/// A file is not there.
#[derive(Debug)]
struct Away {
    since: Moment,
    warnings: usize,
}

/// One file to look at.
#[derive(Debug)]
struct Look {
    task: TaskId,
    offset: usize,
    path: PathBuf,
}

impl TemplateWatch {
    /// A template was rendered, or could not be: these are the files that it read.
    pub(crate) fn record(&self, run: &RunKey, offset: usize, sources: Sources) {
        if sources.surplus > 0 {
            let surplus = sources.surplus;
            tracing::warn!(%run, offset, surplus, "a template reads more than {FILES_MAX} files; the surplus is not followed");
        }
        let files = sources.files.into_iter().map(|(path, mark)| {
            let file = WatchedFile {
                rendered: mark,
                seen: mark,
                away: None,
            };
            (path, file)
        });
        let mut tasks = self.tasks.lock();
        let task = tasks.entry(id(run)).or_default();
        task.templates.insert(offset, files.collect());
    }

    /// Whether the files of a template are known.
    pub(crate) fn knows(&self, run: &RunKey, offset: usize) -> bool {
        let tasks = self.tasks.lock();
        let task = tasks.get(&id(run));
        task.is_some_and(|task| task.templates.contains_key(&offset))
    }

    /// The files that a template read, as they were rendered.
    pub(crate) fn rendered(&self, run: &RunKey, offset: usize) -> Vec<(PathBuf, FileMark)> {
        let tasks = self.tasks.lock();
        let files = tasks.get(&id(run)).and_then(|it| it.templates.get(&offset));
        let files = files.into_iter().flatten();
        files
            .filter_map(|(path, file)| Some((path.clone(), file.rendered?)))
            .collect()
    }

    /// Whether a file that a template reads was away when it was to be rendered.
    pub(crate) fn lacks_a_file(&self, run: &RunKey, offset: usize) -> bool {
        let tasks = self.tasks.lock();
        let files = tasks.get(&id(run)).and_then(|it| it.templates.get(&offset));
        files.is_some_and(|files| files.values().any(|file| file.rendered.is_none()))
    }

    /// Changes are told to this run from now on.
    pub(crate) fn follow(&self, run: &RunKey) {
        let mut tasks = self.tasks.lock();
        tasks.entry(id(run)).or_default().run = Some(run.clone());
    }

    /// The run is over. Its files are remembered for the next one.
    pub(crate) fn pause(&self, run: &RunKey) {
        if let Some(task) = self.tasks.lock().get_mut(&id(run))
            && task.run.as_ref() == Some(run)
        {
            task.run = None;
        }
    }

    /// Nothing of the allocation runs any more.
    pub(crate) fn forget(&self, alloc: AllocId) {
        self.tasks.lock().retain(|(of, _), _| *of != alloc);
    }

    /// The files to look at next, behind the task at which the look before ended; and where this
    /// one ends.
    fn next_look(&self, behind: Option<TaskId>) -> (Vec<Look>, Option<TaskId>) {
        let tasks = self.tasks.lock();
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let mut looks = Vec::new();
        for (id, task) in tasks.range((from, Bound::Unbounded)) {
            if task.run.is_none() {
                continue;
            }
            let paths = task.templates.iter().flat_map(|(offset, files)| {
                let paths = files.keys().cloned();
                paths.map(|path| (*offset, path))
            });
            looks.extend(paths.map(|(offset, path)| Look {
                task: id.clone(),
                offset,
                path,
            }));
            if looks.len() >= LOOK_FILES_MAX {
                return (looks, Some(id.clone()));
            }
        }
        (looks, None)
    }

    /// Takes in what was found; returns what the core is told.
    fn take(&self, found: Vec<(Look, Option<FileMark>)>, now: Moment) -> Vec<Event> {
        let mut tasks = self.tasks.lock();
        let mut changed: BTreeMap<TaskId, BTreeSet<usize>> = BTreeMap::new();
        let mut events = Vec::new();
        for (look, mark) in found {
            let Look { task, offset, path } = look;
            let Some(watched) = tasks.get_mut(&task) else {
                continue;
            };
            let file = watched.templates.get_mut(&offset);
            // It was rendered or forgotten meanwhile.
            let Some(file) = file.and_then(|files| files.get_mut(&path)) else {
                continue;
            };
            if let Some(mark) = mark {
                file.away = None;
                if file.seen != Some(mark) {
                    file.seen = Some(mark);
                    changed.entry(task).or_default().insert(offset);
                }
            } else if let Some(gone) = file.warning(now)
                && let Some(run) = &watched.run
            {
                let path = path.display();
                let message = format!(
                    "file {path} is away since {}: the text that was rendered last stays",
                    format_go(gone)
                );
                tracing::warn!(%run, "template: {message}");
                events.push(Event::Run {
                    run: run.clone(),
                    event: RunEvent::Progress {
                        kind: TaskEventKind::Template,
                        message,
                    },
                });
            }
        }
        for (task, offsets) in changed {
            if let Some(run) = tasks.get(&task).and_then(|it| it.run.clone()) {
                let event = RunEvent::TemplatesChanged { offsets };
                events.push(Event::Run { run, event });
            }
        }
        events
    }
}

impl WatchedFile {
    /// The file is away: how long, if that is to be mentioned now.
    fn warning(&mut self, now: Moment) -> Option<Duration> {
        let away = self.away.get_or_insert(Away {
            since: now,
            warnings: 0,
        });
        let due = *AWAY_WARNINGS.get(away.warnings)?;
        (now.since(away.since) >= due).then(|| {
            away.warnings += 1;
            due
        })
    }
}

fn id(run: &RunKey) -> TaskId {
    (run.alloc, run.task.clone())
}

#[cfg(test)]
mod tests;
