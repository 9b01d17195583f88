//! Artifacts: fetched by children that are shut in, then inspected and merged here.
//!
//! ```text
//!   PreparedArtifact --> staging directory --> noded-jail fetch --> inspect --> merge --> Fetched
//!                        dropped in any case
//! ```

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use isolation::Identity;
use noded_artifact::{FetchRequest, Fetched, Mode, Owner, Staging, inspect, masked, merge};
use noded_core::effect::{PrepareTask, PreparedArtifact};
use noded_core::event::RunEvent;
use noded_core::{Event, RunKey};
use noded_jail::Fetch;
use parking_lot::Mutex;
use protocol_model::{Artifact, Task, TaskEventKind};
use rustix::fs::{Gid, Uid};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Executor;
use super::prepare::Failed;
use super::users::identity_of;
use crate::config::{ArtifactSettings, Config};
use crate::input::Input;
use crate::jail::JailError;

/// Artifacts of one task side by side, as Nomad fetches them.
const AT_ONCE: usize = 3;
/// The pause between two lines of progress: each goes to the servers.
const PROGRESS_PAUSE: Duration = Duration::from_secs(2);
/// Added to the time limits of a fetch: unpacking has none of its own.
const DEADLINE_EXTRA: Duration = Duration::from_secs(60);
/// Nomad's limit of a fetch is never below this.
const DEADLINE_MIN: Duration = Duration::from_secs(30 * 60);
/// The search path where noded has none.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Executor {
    /// Fetches the artifacts that were not fetched yet. The first failure ends the others.
    pub(super) async fn artifacts(
        self: &Arc<Self>,
        prepare: &Arc<PrepareTask>,
        cancel: &CancellationToken,
    ) -> Result<(), Failed> {
        let history = History::new(prepare.run.clone(), self.inputs.clone());
        history.line("Client is downloading artifacts".to_owned());
        let mut fetches = futures::stream::iter(0..prepare.artifacts.len())
            .map(|position| self.artifact(Arc::clone(prepare), position, &history, cancel))
            .buffer_unordered(AT_ONCE);
        while let Some(fetched) = fetches.next().await {
            fetched?;
        }
        Ok(())
    }

    async fn artifact(
        self: &Arc<Self>,
        prepare: Arc<PrepareTask>,
        position: usize,
        history: &History,
        cancel: &CancellationToken,
    ) -> Result<(), Failed> {
        let Some(artifact) = prepare.artifacts.get(position) else {
            return Ok(());
        };
        let url = masked(&artifact.source);
        let subject =
            |failed: Failed| failed.about(&format!("failed to download artifact {url:?}"));
        let run = &prepare.run;
        let name = format!("{}.{}.{}", run.task, run.epoch.0, artifact.offset);
        let begun = Arc::clone(&prepare);
        let order = self.blocking(move |own| own.order(&begun, position, &name));
        let order = order.await.map_err(subject)?;
        let work = Fetch {
            request: order.request.clone(),
            staging: order.staging.path.clone(),
            environment: order.environment.clone(),
        };
        let progress = |line: String| history.progress(artifact.offset, &url, &line);
        let done = self
            .jail
            .run(&work, order.deadline, cancel.cancelled(), progress)
            .await;
        let fetched = match done {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(failure)) if failure.is_recoverable => {
                return Err(subject(Failed::possible(failure.message)));
            }
            Ok(Err(failure)) => return Err(subject(Failed::hopeless(failure.message))),
            Err(JailError::Cancelled) => return Err(Failed::cancelled()),
            Err(error) => return Err(subject(Failed::of_jail(&error))),
        };
        let placed = self.blocking(move |own| own.place(order, &fetched));
        placed.await.map_err(subject)?;
        history.fetched(artifact.offset).await;
        Ok(())
    }

    /// Checks what the job asks for, and makes the staging directory. Blocks.
    fn order(
        self: &Arc<Self>,
        prepare: &PrepareTask,
        position: usize,
        name: &str,
    ) -> Result<Order, Failed> {
        let lost = || Failed::hopeless("the job has no such artifact");
        let prepared = prepare.artifacts.get(position).ok_or_else(lost)?;
        let task = prepare.spec.task(&prepare.run.task).ok_or_else(lost)?;
        let artifact = task.artifacts.get(prepared.offset).ok_or_else(lost)?;
        let word = artifact.getter_mode.as_deref().unwrap_or_default();
        let mode = Mode::parse(word)
            .ok_or_else(|| Failed::hopeless(format!("mode {word:?} is none of any, file, dir")))?;
        let config = self.config.now();
        let alloc = prepare.run.alloc;
        let destination = below(&self.allocs.path_of(alloc), prepared)?;
        self.check_visible(prepare, task, Path::new(&prepared.destination))
            .map_err(Failed::hopeless)?;
        let owner = owner(&config, prepare, task, artifact)?;
        let settings = &config.artifact;
        let (directory, path) = self
            .allocs
            .make_staging(alloc, name)
            .map_err(|error| Failed::possible_of(&error))?;
        let environment = environment(settings, &path);
        Ok(Order {
            request: FetchRequest {
                source: prepared.source.clone(),
                options: prepared.options.clone(),
                headers: prepared.headers.clone(),
                mode,
                insecure: artifact.getter_insecure == Some(true),
                limits: settings.limits.clone(),
            },
            deadline: deadline(settings),
            destination,
            owner,
            environment,
            staging: Staged {
                executor: Arc::clone(self),
                staging: Staging::new(directory, path.clone()),
                path,
                alloc,
                name: name.to_owned(),
            },
        })
    }

    /// Puts a staged artifact in its place. Blocks.
    fn place(&self, order: Order, fetched: &Fetched) -> Result<(), Failed> {
        let Order {
            destination,
            owner,
            staging: staged,
            ..
        } = order;
        let links = self.config.now().artifact.links;
        inspect(&staged.staging, fetched.shape, &destination, links, owner)
            .map_err(|error| Failed::new(&error, error.is_recoverable()))?;
        let base = self
            .allocs
            .directory_of(staged.alloc)
            .map_err(|error| Failed::possible_of(&error))?;
        merge(&staged.staging, base.as_fd(), &destination)
            .map_err(|error| Failed::new(&error, error.is_recoverable()))
    }
}

/// A fetch that can begin.
struct Order {
    request: FetchRequest,
    deadline: Duration,
    /// Relative to the allocation's directory.
    destination: PathBuf,
    owner: Option<Owner>,
    environment: Vec<(String, String)>,
    staging: Staged,
}

/// A staging directory, removed when this is dropped.
struct Staged {
    executor: Arc<Executor>,
    staging: Staging,
    path: PathBuf,
    alloc: protocol_model::AllocId,
    name: String,
}

impl Drop for Staged {
    fn drop(&mut self) {
        let executor = Arc::clone(&self.executor);
        let (alloc, name) = (self.alloc, std::mem::take(&mut self.name));
        // A large tree takes its time, which a cancelled preparation does not have.
        let remove = move || {
            if let Err(error) = executor.allocs.drop_staging(alloc, &name) {
                let error = protocol_error_chain::chain(&error);
                tracing::debug!(%alloc, %error, "a staging directory is left until noded starts");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// A destination below the allocation's directory.
fn below(base: &Path, prepared: &PreparedArtifact) -> Result<PathBuf, Failed> {
    let below = Path::new(&prepared.destination).strip_prefix(base).ok();
    let is_own = |path: &&Path| {
        path.components()
            .all(|it| matches!(it, Component::Normal(_)))
    };
    below.filter(is_own).map(Path::to_owned).ok_or_else(|| {
        Failed::hopeless(format!(
            "artifact destination path escapes alloc directory: {}",
            prepared.destination
        ))
    })
}

/// The owner of the artifact, where the job wants the task's user (`chown`).
fn owner(
    config: &Config,
    prepare: &PrepareTask,
    task: &Task,
    artifact: &Artifact,
) -> Result<Option<Owner>, Failed> {
    if !artifact.chown {
        return Ok(None);
    }
    if prepare.user.contains("${") {
        let problem = "chown: the task's user comes from its templates, which are rendered later";
        return Err(Failed::hopeless(problem));
    }
    let identity = identity_of(config, &task.driver, &prepare.user).map_err(Failed::hopeless)?;
    Ok(match identity {
        Identity::Keeper => None,
        Identity::User { uid, gid, .. } => Some(Owner {
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
        }),
    })
}

fn deadline(settings: &ArtifactSettings) -> Duration {
    let limits = &settings.limits;
    DEADLINE_MIN.max(limits.http_timeout + limits.git_timeout) + DEADLINE_EXTRA
}

/// The environment of a fetch: a home and a place for temporary files of its own, and the variables
/// that the operator names.
fn environment(settings: &ArtifactSettings, staging: &Path) -> Vec<(String, String)> {
    let own = |name: &str| staging.join(name).display().to_string();
    let search_path = std::env::var("PATH").unwrap_or_else(|_| SEARCH_PATH.to_owned());
    let mut environment = BTreeMap::from([("PATH".to_owned(), search_path)]);
    for name in &settings.variables {
        if let Ok(value) = std::env::var(name) {
            environment.insert(name.clone(), value);
        }
    }
    environment.insert("HOME".to_owned(), own("home"));
    environment.insert("TMPDIR".to_owned(), own("tmp"));
    environment.into_iter().collect()
}

/// The lines of a task's history about its artifacts.
struct History {
    run: RunKey,
    inputs: mpsc::Sender<Input>,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    /// The newest line of each artifact under way.
    lines: BTreeMap<usize, String>,
    last: Option<Instant>,
}

impl History {
    fn new(run: RunKey, inputs: mpsc::Sender<Input>) -> Self {
        Self {
            run,
            inputs,
            shown: Mutex::default(),
        }
    }

    /// One artifact has come further.
    fn progress(&self, offset: usize, url: &str, line: &str) {
        let line = format!("{}: {line}", short(url));
        let mut shown = self.shown.lock();
        shown.lines.insert(offset, line);
        if shown
            .last
            .is_some_and(|last| last.elapsed() < PROGRESS_PAUSE)
        {
            return;
        }
        shown.last = Some(Instant::now());
        let lines: Vec<&str> = shown.lines.values().map(String::as_str).collect();
        self.line(lines.join("; "));
    }

    /// Replaces the line of before. Where the loop has no time for it, the next one will do.
    fn line(&self, message: String) {
        let event = RunEvent::Progress {
            kind: TaskEventKind::DownloadingArtifacts,
            message,
        };
        let run = self.run.clone();
        let _ = self
            .inputs
            .try_send(Input::Event(Event::Run { run, event }));
    }

    /// One artifact is in its place.
    async fn fetched(&self, artifact: usize) {
        self.shown.lock().lines.remove(&artifact);
        let event = RunEvent::Fetched { artifact };
        let run = self.run.clone();
        // A loop that ended no longer wants to know.
        let _ = self
            .inputs
            .send(Input::Event(Event::Run { run, event }))
            .await;
    }
}

/// The last part of a URL's path, else the URL.
fn short(url: &str) -> &str {
    let path = url.split('?').next().unwrap_or(url).trim_end_matches('/');
    path.rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(destination: &str) -> PreparedArtifact {
        PreparedArtifact {
            offset: 0,
            source: String::new(),
            options: BTreeMap::new(),
            headers: BTreeMap::new(),
            destination: destination.to_owned(),
        }
    }

    #[test]
    fn destination_is_below_the_allocation_or_refused() {
        let base = Path::new("/d/alloc/a");
        let path = |destination| below(base, &prepared(destination)).ok();
        assert_eq!(
            path("/d/alloc/a/web/local/"),
            Some(PathBuf::from("web/local"))
        );
        for destination in ["/d/alloc/b", "/d/alloc/a/web/../other/local", "local"] {
            assert_eq!(path(destination), None, "{destination}");
        }
    }

    #[test]
    fn name_of_an_artifact_is_the_end_of_its_path() {
        for (url, name) in [
            ("https://x.org/a/b.tar.gz?c=d/e", "b.tar.gz"),
            ("git::https://x.org/a/b.git", "b.git"),
            ("https://x.org/", "x.org"),
            ("", ""),
        ] {
            assert_eq!(short(url), name);
        }
    }

    #[test]
    fn fetch_has_a_home_of_its_own() {
        let block = crate::config::ArtifactBlock {
            set_environment_variables: "PATH,DROVER_NO_SUCH".to_owned(),
            ..Default::default()
        };
        let settings = ArtifactSettings::from_file(&block).expect("settings");
        let environment = environment(&settings, Path::new("/s"));
        let names: Vec<&str> = environment.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["HOME", "PATH", "TMPDIR"]);
        assert_eq!(environment[0].1, "/s/home");
    }
}
