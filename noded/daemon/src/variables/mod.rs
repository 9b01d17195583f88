//! Variables that templates of tasks read: asked for once, then watched together.
//!
//! ```text
//!   a rendering --answers--> Read { newest answer } <--TemplateQuery, TemplateWatch-- server
//!                               |
//!                               `--> the hook that waits; RunEvent::TemplatesChanged
//! ```
//!
//! Values are in memory only. A variable that is denied looks like one that is missing. While the
//! server is away the newest answer stays.

mod follow;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use noded_core::RunKey;
use noded_template::{Dependency, Variable, VariableId};
use parking_lot::Mutex;
use protocol_model::AllocId;
use tokio::sync::{Notify, mpsc, watch};

use crate::input::Input;
use crate::queries::Queries;

/// Variables and lists that the templates of one task read; the others count as missing.
const READS_MAX: usize = 256;
/// How long a rendering waits for the first answer of a server.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(2);

/// One thing that is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// One variable.
    Variable(VariableId),
    /// Variables below a prefix.
    List(VariableId),
}

impl Source {
    /// The source of a dependency; `None` for one that is no variable.
    pub(crate) fn of(dependency: &Dependency) -> Option<Self> {
        match dependency {
            Dependency::Variable(id) | Dependency::VariableExistence(id) => {
                Some(Self::Variable(id.clone()))
            }
            Dependency::VariableList(id) => Some(Self::List(id.clone())),
            Dependency::File(_) | Dependency::Service(_) | Dependency::Services(_) => None,
        }
    }
}

/// The variables of an answer: of one variable at most one.
type Answer = Vec<Variable>;
type TaskId = (AllocId, String);

/// All reads of a node.
#[derive(Debug)]
pub(crate) struct Variables {
    queries: Arc<Queries>,
    inputs: mpsc::Sender<Input>,
    tasks: Mutex<BTreeMap<TaskId, TaskReads>>,
    /// There is a new read.
    added: Notify,
    /// Whether the reads are followed: from the first one on.
    is_following: AtomicBool,
}

#[derive(Debug)]
struct TaskReads {
    /// The run that is told of changes; `None` = none lives.
    run: Option<RunKey>,
    reads: BTreeMap<Source, Read>,
    /// Counts answers.
    news: watch::Sender<u64>,
}

impl Default for TaskReads {
    fn default() -> Self {
        Self {
            run: None,
            reads: BTreeMap::new(),
            news: watch::Sender::new(0),
        }
    }
}

#[derive(Debug)]
struct Read {
    answer: Option<Answer>,
    /// The templates that read it: offsets into the task's list, and whether each has had the
    /// newest answer.
    offsets: BTreeMap<usize, bool>,
    /// The index of the newest answer in this session; 0 = it is to be asked for.
    known_index: u64,
}

impl Variables {
    pub(crate) fn new(queries: Arc<Queries>, inputs: mpsc::Sender<Input>) -> Self {
        Self {
            queries,
            inputs,
            tasks: Mutex::default(),
            added: Notify::new(),
            is_following: AtomicBool::new(false),
        }
    }

    /// The newest answers, followed from now on. `None` for one that no server has given in time;
    /// they are waited for together.
    pub(crate) async fn answers(
        self: &Arc<Self>,
        run: &RunKey,
        offset: usize,
        sources: Vec<Source>,
    ) -> Vec<(Source, Option<Answer>)> {
        let mut news = self.news(run);
        for source in &sources {
            self.begin(run, offset, source);
        }
        let answered = async {
            loop {
                news.borrow_and_update();
                let is_there = |source| self.newest(run, offset, source).is_some();
                if sources.iter().all(is_there) || news.changed().await.is_err() {
                    return;
                }
            }
        };
        // Answers that came in time count.
        let _ = tokio::time::timeout(FIRST_ANSWER_MAX, answered).await;
        let sources = sources.into_iter();
        sources
            .map(|source| {
                let answer = self.newest(run, offset, &source);
                (source, answer)
            })
            .collect()
    }

    /// Counts the answers for a task.
    pub(crate) fn news(&self, run: &RunKey) -> watch::Receiver<u64> {
        let mut tasks = self.tasks.lock();
        tasks.entry(id(run)).or_default().news.subscribe()
    }

    /// Changes are told to this run from now on. Returns the templates that have not had the newest
    /// answer: it came while no run was told.
    pub(crate) fn follow(&self, run: &RunKey) -> BTreeSet<usize> {
        let mut tasks = self.tasks.lock();
        let Some(task) = tasks.get_mut(&id(run)) else {
            return BTreeSet::new();
        };
        task.run = Some(run.clone());
        let answered = task.reads.values().filter(|read| read.answer.is_some());
        let offsets = answered.flat_map(|read| &read.offsets);
        let stale = offsets.filter(|(_, has_newest)| !**has_newest);
        stale.map(|(offset, _)| *offset).collect()
    }

    /// Whether a template reads a variable that no server has answered yet.
    pub(crate) fn lacks_an_answer(&self, run: &RunKey, offset: usize) -> bool {
        let tasks = self.tasks.lock();
        let reads = tasks.get(&id(run)).into_iter().flat_map(|it| &it.reads);
        let mut reads = reads.filter(|(_, read)| read.offsets.contains_key(&offset));
        reads.any(|(_, read)| read.answer.is_none())
    }

    /// The run is over. Its variables are followed for the next one.
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

    /// The newest answer: the template has it from now on.
    fn newest(&self, run: &RunKey, offset: usize, source: &Source) -> Option<Answer> {
        let mut tasks = self.tasks.lock();
        let read = tasks.get_mut(&id(run))?.reads.get_mut(source)?;
        let answer = read.answer.clone()?;
        read.offsets.insert(offset, true);
        Some(answer)
    }

    fn begin(self: &Arc<Self>, run: &RunKey, offset: usize, source: &Source) {
        let mut tasks = self.tasks.lock();
        let task = tasks.entry(id(run)).or_default();
        let count = task.reads.len();
        if let Some(read) = task.reads.get_mut(source) {
            read.offsets.entry(offset).or_default();
        } else if count < READS_MAX {
            let read = Read {
                answer: None,
                offsets: BTreeMap::from([(offset, false)]),
                known_index: 0,
            };
            task.reads.insert(source.clone(), read);
            self.added.notify_one();
            if !self.is_following.swap(true, Ordering::Relaxed) {
                tokio::spawn(Arc::clone(self).keep_following());
            }
        } else {
            tracing::warn!(%run, "a task's templates read more than {READS_MAX} variables");
        }
    }
}

fn id(run: &RunKey) -> TaskId {
    (run.alloc, run.task.clone())
}
